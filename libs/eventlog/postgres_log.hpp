// The event log in PostgreSQL. Tables: libs/eventlog/sql (each service's first migration includes it).
// Positions are taken as the last step before COMMIT under one advisory transaction lock per partition.
#pragma once

#include <memory>

#include "libs/eventlog/event_log.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::eventlog {
// `partitions` must equal the number the schema was created with (table log_settings), else InvalidArgument.
Result<std::unique_ptr<EventLog>> make_postgres_log(const Clock& clock, pg::Pool& pool, int partitions);

// Creates the range partitions of the events table ahead of the last position. Called at start and hourly.
Result<void> ensure_ranges(pg::Pool& pool);
}  // namespace nodus::eventlog
