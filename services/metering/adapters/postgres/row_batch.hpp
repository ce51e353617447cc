// The read models of one transaction, folded and written with one statement a table: a batch of commands
// costs round trips by table, not by Sandbox. Notes are staged on the Unit (eventlog::Unit::stage) and
// written after every decision, so a later command of the same batch does not read them.
#pragma once

#include <any>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libs/pg/connection.hpp"
#include "services/metering/domain/account.hpp"
#include "services/metering/domain/budget.hpp"
#include "services/metering/domain/charge.hpp"

namespace nodus::metering {

struct StartNote {  // the row of `starts`, as it is now; none: it goes
  SandboxUid uid;
  std::optional<charge::Start> start;
  bool arm_cap = false;  // its cap is due again, though it was judged
};
struct CapJudgedNote {  // a cap due by then is not due again
  SandboxUid uid;
  MoneySecond until_s = 0;
};
struct BillNote {  // the lines of a start that closed, and its posting
  charge::ChargeClosed closed;
  std::string sandbox_name;
  std::optional<MoneySecond> cap_s = {};  // where maxCostUSD was used up
};
struct StoredNote {  // the row of `stored`, as it is now; none: it goes. It was judged: it is not due
  SandboxUid uid;
  std::optional<charge::Stored> stored;
  Rate rate;
};
struct StorageNote {  // a line of storage, and its posting
  charge::StorageMetered metered;
  std::string sandbox_name;
};
struct StorageFactNote {  // what its lines cannot say by themselves
  charge::StorageOpened opened;
};
// Money ended, or came: what is stored is due, where it is waived or its line has ended. By organization, or
// by project.
struct StorageDueNote {
  OrgId org;
  std::optional<ProjectId> project;
};
struct FundedNote {  // what a start's lines cannot say by themselves
  charge::StartFunded funded;
};
struct LabelsNote {  // of a start's Sandbox; counts only beside a FundedNote of the same transaction
  SandboxUid uid;
  int64_t start = 0;
  std::map<std::string, std::string> labels;
};
struct AccountNote {
  account::State after;
};
struct SpendNote {
  budget::State after;
};
struct BudgetDueNote {  // when a project must be looked at next; none: never
  OrgId org;
  ProjectId project;
  std::optional<Instant> due;
};
struct DueNote {
  OrgId org;
  std::optional<Instant> due;
};

// Writes what the notes say, the last word of each row. Notes of other types are left alone.
void write_rows(pg::Tx& tx, const std::vector<std::any>& staged);

}  // namespace nodus::metering
