// Does the ledger hold? Checks over the tables in SQL, and over the log by replaying every stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libs/eventlog/event_log.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::metering {

struct Check {
  std::string name;
  int64_t faults = 0;
  std::string example;  // one that is at fault
};

Result<std::vector<Check>> audit(pg::Pool& pool, eventlog::EventLog& log);

}  // namespace nodus::metering
