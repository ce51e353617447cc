#include "services/metering/domain/settle.hpp"

#include <algorithm>

#include "libs/base/check.hpp"
#include "services/metering/domain/lots.hpp"

namespace nodus::metering {

using account::LineEnd;
using charge::Phase;

const charge::Start& Draft::current() const {
  CHECK(charge.current.has_value(), "no start is funded or open");
  return *charge.current;
}
void Draft::emit(charge::Event event) {
  charge::evolve(charge, event);
  events.charge.push_back(std::move(event));
}
void Draft::emit(account::Event event) {
  account::evolve(account, event);
  events.account.push_back(std::move(event));
}
void Draft::emit(budget::Event event) {
  budget::evolve(budget, event);
  events.budget.push_back(std::move(event));
}

std::optional<MoneySecond> seconds_paid(Money money, Rate rate) {
  if (rate == Rate()) return std::nullopt;
  if (money <= Money()) return 0;
  constexpr int128 kCentury = 3'155'760'000;
  return static_cast<MoneySecond>(std::min<int128>(money.pico() / rate.pico_per_second(), kCentury));
}

std::optional<MoneySecond> Standing::ended_s() const {
  if (account_end_s && budget_end_s) return std::min(*account_end_s, *budget_end_s);
  return account_end_s ? account_end_s : budget_end_s;
}

Waiver Standing::cause() const {
  if (account == LineEnd::kCapped && !by_budget) return Waiver::kMaxCostReached;
  // The balance ended in another decision, and a Budget had ended before.
  const bool budget_first = budget_end_s && account_end_s && *budget_end_s < *account_end_s;
  return by_budget || budget_first ? Waiver::kBudgetExceeded : Waiver::kInsufficientCredits;
}

Standing standing(const Draft& draft) {
  const charge::Start& start = draft.current();
  Standing s;
  if (!start.budgeted) s.budget = budget::Line::kNone;
  if (start.capped) {
    s.account = LineEnd::kCapped;
    s.account_end_s = start.cap_s;
    if (!start.budgeted) return s;
    s.budget = budget::Line::kCapped;
    s.budget_end_s = start.cap_s;
    return s;
  }
  s = standing(draft, start.era, start.budgeted ? start.budget_era : draft.budget.era);
  if (!start.budgeted) s.budget = budget::Line::kNone;
  return s;
}

Standing standing(const Draft& draft, int64_t era, int64_t budget_era) {
  Standing s;
  if (budget_era < draft.budget.era) {
    const auto* end = budget::exhaustion(draft.budget, budget_era);
    CHECK(end != nullptr, "era {} of the budget did not end", budget_era);
    s.budget = budget::Line::kExhausted;
    s.budget_end_s = end->at_s;
    s.by_budget = end->by_budget;
    if (end->by_budget) {  // its line on the account was flattened with it
      s.account = LineEnd::kCapped;
      s.account_end_s = end->at_s;
      return s;
    }
  }
  if (era < draft.account.era) {
    s.account = LineEnd::kExhausted;
    s.account_end_s = account::exhausted_at(draft.account, era);
  }
  return s;
}

std::optional<MoneyEnd> money_end(const Draft& draft, const Standing& stood) {
  const charge::Start& start = draft.current();
  return money_end(draft,
                   {start.rate, charge::pays_from(start).value_or(start.from_s), start.cap_s, start.budgeted},
                   stood);
}

std::optional<MoneyEnd> money_end(const Draft& draft, const LineTerms& line, const Standing& stood) {
  std::optional<MoneyEnd> end;
  const auto limit = [&](std::optional<MoneySecond> second, Waiver cause) {
    if (second && (!end || *second < end->at_s)) end = MoneyEnd{*second, cause};
  };
  limit(line.cap_s, Waiver::kMaxCostReached);
  limit(stood.ended_s(), stood.cause());
  if (line.budgeted) {
    for (const auto& b : draft.budget.budgets) {
      const bool monthly = b.spec.period == budget::Period::kMonthly;
      const Money left = b.cover - (monthly ? draft.budget.month.spent : draft.budget.total.spent);
      const auto from_s = monthly ? std::max(line.from_s, draft.budget.month_s) : line.from_s;
      if (const auto paid = seconds_paid(left, line.rate)) limit(from_s + *paid, Waiver::kBudgetExceeded);
    }
  }
  if (const auto paid = seconds_paid(account::balance(draft.account), line.rate))
    limit(line.from_s + *paid, Waiver::kInsufficientCredits);
  return end;
}

namespace {

// What ends next, and where. In this order when it is the same second.
enum class Next { kMonth, kExpiry, kCap, kCutOff, kBudget, kBalance };
struct Step {
  Next next = Next::kMonth;
  MoneySecond at_s = 0;
};

std::optional<MoneySecond> cap_of(const Draft& draft) {
  if (!draft.charge.current || draft.current().phase != Phase::kOpen) return std::nullopt;
  return standing(draft).account == LineEnd::kLive ? draft.current().cap_s : std::nullopt;
}

std::optional<Step> next_end(const Draft& draft, MoneySecond at_s, Reach reach, bool brake) {
  // The balance ended in another decision: the project's lines ended with it, unless a Budget came first.
  const auto budget_end = budget::ends_at(draft.budget);
  if (draft.budget.open > 0 && draft.budget.account_era < draft.account.era) {
    const auto end = account::exhausted_at(draft.account, draft.budget.account_era);
    CHECK(end.has_value(), "era {} is not exhausted", draft.budget.account_era);
    return Step{Next::kCutOff, std::min(*end, budget_end.value_or(*end))};
  }
  const auto expiry = account::next_expiry(draft.account, at_s);
  if (brake) return expiry ? std::optional(Step{Next::kExpiry, expiry->at_s}) : std::nullopt;
  const auto balance_end = account::ends_at(draft.account);
  const auto cap = cap_of(draft);
  std::optional<Step> first;
  const auto sooner = [&](Next next, std::optional<MoneySecond> end, MoneySecond within) {
    if (end && *end <= within && (!first || *end < first->at_s)) first = Step{next, *end};
  };
  if (expiry) sooner(Next::kExpiry, expiry->at_s, at_s);
  sooner(Next::kCap, cap, at_s);
  sooner(Next::kBudget, budget_end, reach == Reach::kDue ? at_s : at_s - 1);
  sooner(Next::kBalance, balance_end, at_s - 1);
  return first;
}

std::optional<Step> next_step(const Draft& draft, MoneySecond at_s, Reach reach, bool brake) {
  const auto end = next_end(draft, at_s, reach, brake);
  const MoneySecond month = budget::next_month(draft.budget.month_s);
  if (month > (end ? end->at_s : at_s)) return end;
  // Month by month while something runs; at once over months in which nothing did.
  const MoneySecond to = draft.budget.open > 0 ? month : budget::month_of(end ? end->at_s : at_s);
  return Step{Next::kMonth, to};
}

void reach_cap(Draft& draft, MoneySecond at_s) {
  const charge::Start start = draft.current();
  const SlotRef& slot = start.slot;
  draft.emit(
      account::AccrualFlattened{slot.org, slot.uid, slot.start, start.rate, start.from_s, at_s, start.hold});
  if (start.budgeted)
    draft.emit(budget::SpendFlattened{slot.org, slot.project, slot.uid, slot.start, start.hold, start.rate,
                                      start.from_s, at_s});
  draft.emit(charge::CapReached{slot, at_s});
}

void exhaust_budgets(Draft& draft, const Owner& owner, MoneySecond at_s) {
  std::vector<std::string> names;
  for (const auto& budget : draft.budget.budgets)
    if (budget::ends_at(draft.budget, budget) == at_s) names.push_back(budget.name);
  const auto& lines = draft.budget;
  draft.emit(account::LinesFlattened{owner.org, owner.project, at_s, lines.rate, lines.total.base,
                                     lines.held_open, lines.open});
  for (const auto& name : names) draft.emit(budget::BudgetExhausted{owner.org, owner.project, name, at_s});
}

void recover(Draft& draft, const Owner& owner, MoneySecond at_s) {
  std::vector<budget::Budget> monthly;
  for (const auto& budget : draft.budget.budgets)
    if (budget.spec.period == budget::Period::kMonthly && budget.reached > 0) monthly.push_back(budget);
  for (const auto& b : monthly)
    draft.emit(budget::Recovered{owner.org, owner.project, b.name, 0, at_s, b.spec.limit,
                                 budget::spent(draft.budget, b, at_s)});
}

}  // namespace

void tell_thresholds(Draft& draft, const Owner& owner, MoneySecond at_s) {
  std::vector<budget::ThresholdReached> news;
  for (const auto& b : draft.budget.budgets) {
    const Money spent = budget::spent(draft.budget, b, at_s);
    for (const int percent : b.spec.thresholds) {
      const bool reached = spent.pico() * 100 >= b.spec.limit.pico() * percent || b.exhausted_s;
      if (percent <= b.reached || !reached) continue;
      const auto ended_s = std::max(b.exhausted_s.value_or(at_s), draft.budget.since_s);
      const auto when = std::min(at_s, budget::reaches_at(draft.budget, b, percent).value_or(ended_s));
      news.push_back({owner.org, owner.project, b.name, percent, when, b.spec.limit,
                      budget::spent(draft.budget, b, when)});
    }
  }
  for (auto& event : news) draft.emit(std::move(event));
}

void settle(Draft& draft, const Owner& owner, MoneySecond at_s, Reach reach, bool brake) {
  while (const auto step = next_step(draft, at_s, reach, brake)) {
    tell_thresholds(draft, owner, step->next == Next::kMonth ? step->at_s - 1 : step->at_s);
    switch (step->next) {
      case Next::kMonth:
        draft.emit(budget::MonthBegan{owner.org, owner.project, step->at_s});
        recover(draft, owner, step->at_s);
        break;
      case Next::kExpiry:
        draft.emit(*account::next_expiry(draft.account, step->at_s));
        break;
      case Next::kCap:
        reach_cap(draft, step->at_s);
        break;
      case Next::kCutOff:
        draft.emit(budget::SpendCutOff{owner.org, owner.project, step->at_s});
        break;
      case Next::kBudget:
        exhaust_budgets(draft, owner, step->at_s);
        break;
      case Next::kBalance:
        draft.emit(account::BalanceExhausted{owner.org, step->at_s});
        break;
    }
  }
  tell_thresholds(draft, owner, at_s);
}

void tell_funds(Draft& draft, const Owner& owner, const Context& context) {
  const MoneySecond now_s = to_money_second(context.now);
  const auto& poor = draft.account.smallest_refused;
  if (poor && account::available(draft.account, now_s) >= *poor)
    draft.emit(account::FundsChanged{owner.org, context.now});
  const auto& full = draft.budget.smallest_refused;
  if (!full) return;
  const auto* least = budget::tightest(draft.budget, now_s);
  if (least == nullptr || budget::available(draft.budget, *least, now_s) >= *full)
    draft.emit(budget::FundsChanged{owner.org, context.now});
}

}  // namespace nodus::metering
