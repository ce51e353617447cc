// What the operator's commands need of the service: its database, its log and its use cases.
#pragma once

#include <memory>
#include <optional>

#include "libs/eventlog/postgres_log.hpp"
#include "services/metering/adapters/postgres/read_models.hpp"
#include "services/metering/config.hpp"

namespace nodus::metering {

inline constexpr int kMissing = 2;  // the exit code for a missing dependency

struct Operator {
  explicit Operator(const Config& config) : pool(config.database, 2) {}
  Result<void> open(const Config& config) {
    auto made = eventlog::make_postgres_log(clock, pool, config.log_partitions);
    if (!made) return std::unexpected(std::move(made.error()));
    log = std::move(*made);
    projections.emplace(*log);
    works.emplace(clock, config.durations, lookups, *projections);
    return {};
  }

  SystemClock clock;
  pg::Pool pool;
  PostgresLookups lookups;
  std::unique_ptr<eventlog::EventLog> log;
  std::optional<PostgresProjections> projections;
  std::optional<Works> works;
};

}  // namespace nodus::metering
