// The bill of a project: posted lines, and what the open intervals have come to so far.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libs/base/ids.hpp"
#include "libs/eventlog/event_log.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/domain/lines.hpp"

namespace nodus::metering {

struct BillLine {
  std::string sandbox;
  SandboxUid uid;
  int64_t start = 0;
  int ordinal = 0;
  Line line;
  Rate rate;
  bool open = false;
};

struct BillQuery {
  OrgId org;
  ProjectId project;
  std::string sandbox;  // a name; empty: all
  int limit = 500;
  std::string after;  // BillPage::next of the page before; empty: the first page
};

struct BillPage {
  std::vector<BillLine> lines;  // posted by time, then open ones (on the last page)
  Money total;                  // of everything that matches, whatever the page
  Money balance;                // of the organization, now
  std::string next;             // empty: the last page
};

// Errors: BadRequest/ContinueInvalid.
Result<BillPage> read_bill(pg::Pool& pool, eventlog::EventLog& log, const BillQuery& query, Instant now);

}  // namespace nodus::metering
