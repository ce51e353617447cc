// One private PostgreSQL for each test process, started when first asked for and ended, by its process id,
// when the process ends. It listens on a Unix socket only. Call it from the main thread first.
#pragma once

#include <string>
#include <vector>

namespace nodus::test {

// A new database with `schema` made from the SQL files (paths from the repository root), cloned from a
// template that is built once for each combination. Answers a libpq connection string for a superuser.
std::string fresh_database(const std::vector<std::string>& sql_files, const std::string& schema);

// The SQL files of the event log, then those given.
std::vector<std::string> log_files(const std::vector<std::string>& more = {});

// The SQL files of all of a service's tables, in the order of its plan.
std::vector<std::string> migrations_of(const std::string& service);

// Makes one more schema in a database that fresh_database() gave.
void add_schema(const std::string& url, const std::vector<std::string>& sql_files, const std::string& schema);

// For benchmarks, before the first database: commits are then flushed to the disk, as in production.
void use_durable_postgres();

// Restarts the server at once (as after a crash), to see who reconnects.
void crash_and_restart_postgres();

}  // namespace nodus::test
