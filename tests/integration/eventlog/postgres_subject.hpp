// A fresh database with the log's tables, and the log on it.
#pragma once

#include "libs/eventlog/postgres_log.hpp"
#include "tests/support/postgres_fixture.hpp"
#include "tests/unit/eventlog/contract.hpp"

namespace nodus::eventlog::contract {

struct PostgresSubject final : Subject {
  explicit PostgresSubject(int connections = 4, Millis given_lock_timeout = Millis(2'000),
                           Millis given_idle_timeout = Millis(3'000))
      : url(test::fresh_database(test::log_files(), "lifecycle")),
        lock_timeout(given_lock_timeout),
        idle_timeout(given_idle_timeout),
        pool(options(), connections),
        log_(make_postgres_log(clock, pool, 4).value()) {}

  EventLog& log() override { return *log_; }
  pg::ConnectOptions options() const {
    return {.url = url,
            .schema = "lifecycle",
            .application_name = "test",
            .lock_timeout = lock_timeout,
            .idle_in_transaction_timeout = idle_timeout};
  }

  std::string url;
  Millis lock_timeout, idle_timeout;
  pg::Pool pool;
  std::unique_ptr<EventLog> log_;
};

}  // namespace nodus::eventlog::contract
