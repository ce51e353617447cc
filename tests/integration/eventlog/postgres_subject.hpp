// A fresh database with the log's tables, and the log on it.
#pragma once

#include "libs/eventlog/postgres_log.hpp"
#include "tests/support/postgres_fixture.hpp"
#include "tests/unit/eventlog/contract.hpp"

namespace nodus::eventlog::contract {

struct PostgresSubject final : Subject {
  explicit PostgresSubject(int connections = 4)
      : url(test::fresh_database({"libs/eventlog/sql/event_log.sql"}, "lifecycle")),
        pool(options(), connections),
        log_(make_postgres_log(clock, pool, 4).value()) {}

  EventLog& log() override { return *log_; }
  pg::ConnectOptions options() const {
    return {.url = url, .schema = "lifecycle", .application_name = "test"};
  }

  std::string url;
  pg::Pool pool;
  std::unique_ptr<EventLog> log_;
};

}  // namespace nodus::eventlog::contract
