// budget/<project>: what a project spends, as a straight line, and the Budgets that limit it. Sums only,
// whatever the number of Sandboxes. Several Budgets limit the same spend; the one with the least left ends
// first.
//
// An era is the time between two ends: when a Budget (or the organization's balance) ends at second T, every
// line of the project that is open then ends at T for good, and the project goes on in the next era with
// none.
//
// Monthly Budgets count from the start of the calendar month, UTC. A line that is open then counts anew from
// there; what is closed late counts only with its seconds of the present month.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libs/money/money.hpp"
#include "services/metering/domain/slot.hpp"

namespace nodus::metering::budget {

inline constexpr size_t kMaxBudgets = 20;     // of a project
inline constexpr size_t kMaxThresholds = 10;  // of a Budget

enum class Period { kMonthly, kTotal };
std::string_view to_string(Period period);  // Monthly | Total
std::optional<Period> period_of(std::string_view text);

struct Spec {
  Money limit;
  Period period = Period::kMonthly;
  std::vector<int> thresholds{50, 80, 100};  // percent of the limit, ascending, 1 to 100
  bool operator==(const Spec&) const = default;
};

// What people note on a Budget. It counts for nothing here, and every start's decision carries it along.
struct Metadata {
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  bool operator==(const Metadata&) const = default;
};
inline constexpr size_t kMaxMetadataBytes = 4096;  // keys and values of both

// ---- events

struct BudgetSet {  // made or changed
  OrgId org;
  ProjectId project;
  std::string name;
  std::string uid;
  Spec spec;
  std::string author;
  Instant at;
  Metadata metadata;
  bool operator==(const BudgetSet&) const = default;
};

struct BudgetDeleted {
  OrgId org;
  ProjectId project;
  std::string name;
  std::string author;
  Instant at;
  bool operator==(const BudgetDeleted&) const = default;
};

struct HoldPlaced {
  OrgId org;
  ProjectId project;
  SandboxUid uid;
  int64_t start = 0;
  Money hold;
  bool operator==(const HoldPlaced&) const = default;
};

struct HoldFreed {
  OrgId org;
  ProjectId project;
  SandboxUid uid;
  int64_t start = 0;
  Money hold;
  bool operator==(const HoldFreed&) const = default;
};

struct SpendStarted {  // the line gets steeper; the hold moves from the funded to the running
  OrgId org;
  ProjectId project;
  SandboxUid uid;
  int64_t start = 0;
  Money hold;
  Rate rate;
  MoneySecond from_s = 0;
  int64_t account_era = 0;
  bool storage = false;  // of a restore point: it had no hold
  bool operator==(const SpendStarted&) const = default;
};

struct SpendFlattened {  // maxCostUSD was reached
  OrgId org;
  ProjectId project;
  SandboxUid uid;
  int64_t start = 0;
  Money hold;
  Rate rate;
  MoneySecond from_s = 0;
  MoneySecond to_s = 0;
  bool operator==(const SpendFlattened&) const = default;
};

enum class Line { kNone, kLive, kCapped, kExhausted };  // how the line stood when its start was closed

struct SpendEnded {
  OrgId org;
  ProjectId project;
  SandboxUid uid;
  int64_t start = 0;
  Money hold;
  Rate rate;
  MoneySecond from_s = 0;
  MoneySecond paid_from_s = 0;  // [paid_from_s, paid_to_s) was charged
  MoneySecond paid_to_s = 0;
  Money amount;
  Line line = Line::kLive;
  MoneySecond flat_s = 0;  // capped or exhausted: where the line had ended
  int64_t era = 0;
  bool operator==(const SpendEnded&) const = default;
};

struct MonthBegan {
  OrgId org;
  ProjectId project;
  MoneySecond at_s = 0;
  bool operator==(const MonthBegan&) const = default;
};

struct SpendCutOff {  // the balance ended: every open line of the project ends at at_s
  OrgId org;
  ProjectId project;
  MoneySecond at_s = 0;
  bool operator==(const SpendCutOff&) const = default;
};

struct BudgetExhausted {  // every open line of the project ends at at_s
  OrgId org;
  ProjectId project;
  std::string name;
  MoneySecond at_s = 0;
  bool operator==(const BudgetExhausted&) const = default;
};

struct ThresholdReached {
  OrgId org;
  ProjectId project;
  std::string name;
  int percent = 0;
  MoneySecond at_s = 0;
  Money limit;
  Money spent;
  bool operator==(const ThresholdReached&) const = default;
};

struct Recovered {  // below thresholds that it had reached
  OrgId org;
  ProjectId project;
  std::string name;
  int percent = 0;  // the highest that it still reaches; 0: none
  MoneySecond at_s = 0;
  Money limit;
  Money spent;
  bool operator==(const Recovered&) const = default;
};

struct RefusalNoted {
  OrgId org;
  ProjectId project;
  Money hold;
  bool operator==(const RefusalNoted&) const = default;
};

struct FundsChanged {  // refusals of this organization may be asked again
  OrgId org;
  Instant at;
  bool operator==(const FundsChanged&) const = default;
};

using Event = std::variant<BudgetSet, BudgetDeleted, HoldPlaced, HoldFreed, SpendStarted, SpendFlattened,
                           SpendEnded, MonthBegan, SpendCutOff, BudgetExhausted, ThresholdReached, Recovered,
                           RefusalNoted, FundsChanged>;

// ---- state

struct Budget {
  std::string name;
  std::string uid;
  Spec spec;
  Metadata metadata;
  Instant created_at;
  int64_t generation = 0;  // counts changes of the spec
  // What may be charged at most: the limit, or what was spent already when the limit was set below that.
  Money cover;
  int reached = 0;  // the highest threshold that was told; 0: none
  std::optional<MoneySecond> exhausted_s;
  bool operator==(const Budget&) const = default;
};

struct Exhaustion {
  int64_t era = 0;
  MoneySecond at_s = 0;
  int64_t starts = 0;      // that ended there and are not closed yet; at 0 the entry goes
  bool by_budget = false;  // else by the balance
  bool operator==(const Exhaustion&) const = default;
};

struct Sums {     // of all time, or of the month
  Money spent;    // Σ posted charges
  Money pending;  // Σ of lines that ended and are not posted yet
  Money base;     // Σ rate × from of live lines; `from` no earlier than the month
  bool operator==(const Sums&) const = default;
};

struct State {
  OrgId org;
  ProjectId project;
  Sums total;
  Sums month;
  MoneySecond month_s = 0;  // where the month begins that `month` counts
  Money held_funded;        // Σ holds of funded starts without a slot: set aside
  Money held_open;          // Σ holds of starts with a live line
  Rate rate;                // Σ rates of live lines
  int64_t funded = 0;
  int64_t open = 0;  // live lines
  int64_t era = 0;
  int64_t account_era = 0;  // of the account, in which the live lines were opened
  MoneySecond since_s = 0;  // the last change of slope or limit: lines end no earlier
  std::vector<Exhaustion> exhaustions;
  std::vector<Budget> budgets;            // by name
  std::optional<Money> smallest_refused;  // the smallest hold refused since the last FundsChanged
  bool operator==(const State&) const = default;
};

inline constexpr int kStateVersion = 1;
void evolve(State& state, const Event& event);

MoneySecond month_of(MoneySecond at_s);    // the start of its calendar month, UTC
MoneySecond next_month(MoneySecond at_s);  // the start of the month after

const Budget* find(const State& state, const std::string& name);
// What counts for a Budget at `at_s`, what runs included. A month that begins before is taken into account.
Money spent(const State& state, const Budget& budget, MoneySecond at_s);
// Σ holds of funded and running starts.
Money held(const State& state);
// What a new start may hold; may be negative.
Money available(const State& state, const Budget& budget, MoneySecond at_s);
// The Budget that leaves least to a new start; null: there is none.
const Budget* tightest(const State& state, MoneySecond at_s);
// The last second that the live lines can pay within this month; nullopt: all of it.
std::optional<MoneySecond> ends_at(const State& state, const Budget& budget);
std::optional<MoneySecond> ends_at(const State& state);  // the first of all Budgets
// The first second at which `percent` of the limit is spent, if nothing changes, within this month.
std::optional<MoneySecond> reaches_at(const State& state, const Budget& budget, int percent);
// Where the lines of an era ended; null: the era is the present one.
const Exhaustion* exhaustion(const State& state, int64_t era);
// The first second at which the project must be looked at, if nothing changes.
std::optional<Instant> next_deadline(const State& state, Instant after);

}  // namespace nodus::metering::budget
