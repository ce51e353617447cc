// The Budgets of a project as its readers see them: the state on its head row, and each visible change of a
// Budget with its position, for resourceVersion and for those who watch. What is spent grows with time and
// with each start; that alone is no change.
#pragma once

#include <any>
#include <map>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/domain/budget.hpp"

namespace nodus::metering {

inline constexpr Micros kBudgetChangesKept = std::chrono::hours(1);
inline constexpr int kBudgetChangesOfProject = 10'000;  // at most, whatever their age

struct BudgetChangeNote {
  ProjectId project;
  std::string name;
  std::string type;    // ADDED | MODIFIED | DELETED
  std::string object;  // JSON without its resourceVersion
  std::string was;     // the same before the change, if a selector could tell them apart; else empty
  Instant at;
};

// By name. One Budget that took another's name is a DELETED and an ADDED.
std::vector<BudgetChangeNote> budget_changes(const budget::State& before, const budget::State& after,
                                             Instant now);
// Writes what was noted, and drops what is not kept any more of the projects that changed. Only who holds a
// project's head may write its notes.
void write_budget_changes(pg::Tx& tx, const std::vector<std::any>& staged);

struct BudgetsSeen {  // at one moment
  budget::State state;
  std::map<std::string, int64_t> positions;  // by name
  int64_t last = 1;                          // of the project's latest change
  int64_t position_of(const std::string& name) const;
};
Result<BudgetsSeen> see_budgets(pg::Tx& tx, const OrgId& org, const ProjectId& project);

struct BudgetChange {
  int64_t position = 0;
  std::string type;
  std::string object;
  std::string was;  // empty: to a selector it was what it is
};
struct BudgetChanges {
  std::vector<BudgetChange> changes;  // ascending
  int64_t last = 1;                   // everything up to here is answered for
  int64_t floor = 1;                  // changes up to here may be gone
  bool more = false;
};
Result<BudgetChanges> read_budget_changes(pg::Tx& tx, const ProjectId& project, int64_t after, int limit);

}  // namespace nodus::metering
