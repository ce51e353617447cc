// Replays the whole log and compares what follows from it with what the tables say.
#pragma once

#include <vector>

#include "libs/eventlog/event_log.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/adapters/audit.hpp"

namespace nodus::metering {

// Head rows; postings and ledger entries (each event that moves money has its own, and there are no others);
// and, while the events pass, that no charge went above maxCostUSD.
Result<std::vector<Check>> rebuild_check(pg::Pool& pool, eventlog::EventLog& log);

}  // namespace nodus::metering
