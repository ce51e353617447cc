// The bill: what was charged and waived for the seconds of a span, posted lines and open intervals together,
// exact at the asked instant. One SQL statement sees one moment.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/ids.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/domain/lines.hpp"

namespace nodus::metering {

enum class BillBy { kLine, kProject, kSandbox, kDay, kReason, kLabel };
std::string_view to_string(BillBy by);

struct BillQuery {
  OrgId org;
  std::optional<ProjectId> project;  // nullopt: all of the organization
  std::string sandbox;               // a name; empty: all
  // Only starts whose Sandbox had all of these labels when they began.
  std::map<std::string, std::string> labels;
  MoneySecond from_s = 0;  // [from_s, to_s); lines that stick out are cut
  std::optional<MoneySecond> to_s;
  BillBy by = BillBy::kLine;
  std::string label;  // by label: its key
  int limit = 500;
  std::string after;  // Bill::next of the page before; empty: the first page
};

struct BillLine {
  ProjectId project;
  std::string sandbox;
  SandboxUid uid;
  int64_t start = 0;
  int ordinal = 0;
  Line line;
  Rate rate;
  std::string reason;  // Charged, or why it was waived
  bool open = false;   // of a start that is not closed yet
};

struct BillGroup {
  std::string key;      // project, day, reason, the uid of a Sandbox; a label: "=" and its value, "" without
  ProjectId project;    // by Sandbox
  std::string sandbox;  // by Sandbox: its name
  int64_t seconds = 0;
  int64_t waived_seconds = 0;
  Money amount;
  Money open;  // the part of `amount` that is of open starts
};

struct Bill {
  std::vector<BillLine> lines;    // by line: in the order of their first second
  std::vector<BillGroup> groups;  // otherwise: by key
  Money total;                    // of everything that matches, whatever the page
  Money balance;                  // of the organization at `at`, less what runs has used up
  MoneySecond at_s = 0;           // open starts are rated up to here
  std::string next;               // empty: the last page
};

// A line keeps its place in the order when its start closes, so pages have no line twice and miss none that
// was there from the beginning. Errors: BadRequest/ContinueInvalid.
Result<Bill> read_bill(pg::Pool& pool, const BillQuery& query, Instant now);

}  // namespace nodus::metering
