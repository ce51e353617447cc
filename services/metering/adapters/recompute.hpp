// A month's lines rebuilt from the log's events, apart from the tables that bills are read from, and held
// against them: the difference is zero.
#pragma once

#include <string>
#include <vector>

#include "libs/eventlog/event_log.hpp"
#include "libs/money/money.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/app/calendar.hpp"

namespace nodus::metering {

struct Recomputed {
  OrgId org;
  int64_t lines = 0;         // by the events
  int64_t stored_lines = 0;  // in the tables
  Money amount;
  Money stored_amount;
  int64_t faults = 0;   // starts, lines and sums of days that differ
  std::string example;  // of a fault
};

// Of one organization, or (empty) of all that have lines in the month, by name. Reads the whole log once, in
// pages; memory grows with the open starts and the organizations only.
Result<std::vector<Recomputed>> recompute(pg::Pool& pool, eventlog::EventLog& log, Month month,
                                          const OrgId& only);

}  // namespace nodus::metering
