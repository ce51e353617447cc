// Inside of a decision: the states while they move on, and the one place that brings their lines up to a
// second.
#pragma once

#include <optional>

#include "services/metering/domain/decide.hpp"

namespace nodus::metering {

// Collects events while the states move on, so that each step sees what the previous ones did.
struct Draft {
  charge::State charge;
  account::State account;
  budget::State budget;
  Events events;

  const charge::Start& current() const;
  void emit(charge::Event event);
  void emit(account::Event event);
  void emit(budget::Event event);
};

// How the current start's line stands, on the account and on the budget of its project.
struct Standing {
  account::LineEnd account = account::LineEnd::kLive;
  std::optional<MoneySecond> account_end_s;
  budget::Line budget = budget::Line::kLive;
  std::optional<MoneySecond> budget_end_s;
  bool by_budget = false;  // a Budget ended it

  // Where money ended for it; nullopt: it has not.
  std::optional<MoneySecond> ended_s() const;
  Waiver cause() const;  // what ended it
};
Standing standing(const Draft& draft);
// Of a line without a cap that is counted on both.
Standing standing(const Draft& draft, int64_t era, int64_t budget_era);

// Where the charge of the current start ends, if its money does: its cap, where its line ended, and, whatever
// the order in which releases were heard, what is posted. At the same second the cap counts first.
std::optional<MoneyEnd> money_end(const Draft& draft, const Standing& stood);
// Of any line.
struct LineTerms {
  Rate rate;
  MoneySecond from_s = 0;  // the first that it pays
  std::optional<MoneySecond> cap_s{};
  bool budgeted = true;
};
std::optional<MoneyEnd> money_end(const Draft& draft, const LineTerms& line, const Standing& stood);

struct Owner {  // whose lines are settled
  OrgId org;
  ProjectId project;
};

enum class Reach {
  kBefore,  // what ended before the second: used where a line ends or begins at it
  kDue,     // a Budget's end at the second itself, too: its stops are due
};

// Brings all lines up to at_s: whatever ends first (the month, the current start's cap, a Budget, the
// balance) is recorded first. Deterministic in the facts, however late the deadline that says so. With the
// brake on, no money ends.
// At an instant: a Budget's end is due when its second is reached, not when it is rounded to.
inline Reach reach_of(Instant at) {
  return to_instant(to_money_second(at)) == at ? Reach::kDue : Reach::kBefore;
}
void settle(Draft& draft, const Owner& owner, MoneySecond at_s, Reach reach, bool brake);

// How many whole seconds `money` pays; nullopt: any number.
std::optional<MoneySecond> seconds_paid(Money money, Rate rate);

// More is available than before: tells so if it is enough for a start that was refused.
void tell_funds(Draft& draft, const Owner& owner, const Context& context);
// Which thresholds each Budget has reached at at_s, those of a Budget that is exhausted included.
void tell_thresholds(Draft& draft, const Owner& owner, MoneySecond at_s);

}  // namespace nodus::metering
