#include "services/metering/domain/budget.hpp"

#include <algorithm>

#include "libs/base/check.hpp"

namespace nodus::metering::budget {

namespace {

// Beyond the year 9999 is for ever; keeps instants within 64 bits of microseconds.
constexpr int128 kForEver = 253'402'300'800;

int128 floor_div(int128 a, int128 b) {
  return a / b - (a % b != 0 && a < 0 ? 1 : 0);
}

std::optional<MoneySecond> second_of(int128 second) {
  if (second >= kForEver) return std::nullopt;
  return static_cast<MoneySecond>(second);
}

// What the seconds [from, to) of a line count in the month.
Money in_month(const State& state, Rate rate, MoneySecond from_s, MoneySecond to_s) {
  if (to_s <= state.month_s) return Money();
  return rate * (to_s - std::max(from_s, state.month_s));
}

const Sums& sums(const State& state, const Budget& budget) {
  return budget.spec.period == Period::kMonthly ? state.month : state.total;
}

// Σ that counts for a Budget but for the live lines' rate × t.
Money constant(const Sums& sums) {
  return sums.spent + sums.pending - sums.base;
}

void remove_live(State& state, Rate rate, MoneySecond from_s, Money hold) {
  state.rate = Rate::from_pico_per_second((state.rate * 1 - rate * 1).pico());
  state.total.base -= rate * from_s;
  state.month.base -= rate * std::max(from_s, state.month_s);
  state.held_open -= hold;
  --state.open;
  CHECK(state.open >= 0 && state.rate >= Rate(), "more lines ended than began");
}

void end_lines(State& state, MoneySecond at_s, bool by_budget) {
  if (state.open == 0) return;
  state.total.pending += state.rate * at_s - state.total.base;
  if (at_s > state.month_s) state.month.pending += state.rate * at_s - state.month.base;
  state.exhaustions.push_back({state.era, at_s, state.open, by_budget});
  ++state.era;
  state.rate = Rate();
  state.total.base = state.month.base = state.held_open = Money();
  state.open = 0;
}

Budget& named(State& state, const std::string& name) {
  const auto found = std::ranges::find(state.budgets, name, &Budget::name);
  CHECK(found != state.budgets.end(), "no Budget {}", name);
  return *found;
}

void on(State& state, const BudgetSet& e) {
  state.org = e.org;
  state.project = e.project;
  const auto at_s = to_money_second(e.at);
  auto place = std::ranges::lower_bound(state.budgets, e.name, {}, &Budget::name);
  const bool fresh = place == state.budgets.end() || place->name != e.name;
  if (fresh)
    place = state.budgets.insert(place, {.name = e.name,
                                         .uid = e.uid,
                                         .spec = {},
                                         .metadata = {},
                                         .created_at = e.at,
                                         .cover = {},
                                         .exhausted_s = {}});
  Budget& budget = *place;
  const bool same_limit = !fresh && budget.spec.limit == e.spec.limit && budget.spec.period == e.spec.period;
  budget.metadata = e.metadata;
  if (!fresh && budget.spec == e.spec) return;
  budget.spec = e.spec;
  ++budget.generation;
  state.since_s = std::max(state.since_s, at_s);
  if (same_limit) return;
  const Money now = spent(state, budget, at_s);
  budget.cover = std::max(e.spec.limit, now);
  budget.exhausted_s = now >= e.spec.limit ? std::optional(budget.exhausted_s.value_or(at_s)) : std::nullopt;
}

void on(State& state, const BudgetDeleted& e) {
  std::erase_if(state.budgets, [&](const Budget& b) { return b.name == e.name; });
}

void on(State& state, const HoldPlaced& e) {
  state.org = e.org;
  state.project = e.project;
  state.held_funded += e.hold;
  ++state.funded;
}

void on(State& state, const HoldFreed& e) {
  state.held_funded -= e.hold;
  --state.funded;
  CHECK(state.funded >= 0, "more holds freed than placed");
}

void on(State& state, const SpendStarted& e) {
  CHECK(state.open == 0 || state.account_era == e.account_era, "lines of two eras of the account");
  state.account_era = e.account_era;
  state.held_funded -= e.hold;
  if (!e.storage) --state.funded;
  state.held_open += e.hold;
  state.rate = Rate::from_pico_per_second((state.rate * 1 + e.rate * 1).pico());
  state.total.base += e.rate * e.from_s;
  state.month.base += e.rate * std::max(e.from_s, state.month_s);
  state.since_s = std::max(state.since_s, e.from_s);
  ++state.open;
}

void on(State& state, const SpendFlattened& e) {
  remove_live(state, e.rate, e.from_s, e.hold);
  state.total.pending += e.rate * (e.to_s - e.from_s);
  state.month.pending += in_month(state, e.rate, e.from_s, e.to_s);
}

void on(State& state, const SpendEnded& e) {
  state.org = e.org;
  state.project = e.project;
  state.total.spent += e.amount;
  state.month.spent += in_month(state, e.rate, e.paid_from_s, e.paid_to_s);
  if (e.line == Line::kNone) return;
  if (e.line == Line::kLive) return remove_live(state, e.rate, e.from_s, e.hold);
  state.total.pending -= e.rate * (e.flat_s - e.from_s);
  state.month.pending -= in_month(state, e.rate, e.from_s, e.flat_s);
  if (e.line == Line::kCapped) return;
  const auto entry = std::ranges::find(state.exhaustions, e.era, &Exhaustion::era);
  CHECK(entry != state.exhaustions.end(), "era {} did not end", e.era);
  if (--entry->starts == 0) state.exhaustions.erase(entry);
}

void on(State& state, const MonthBegan& e) {
  state.org = e.org;
  state.project = e.project;
  state.month_s = e.at_s;
  state.month = {.spent = {}, .pending = {}, .base = state.rate * e.at_s};
  for (auto& budget : state.budgets) {
    if (budget.spec.period != Period::kMonthly) continue;
    budget.cover = budget.spec.limit;
    budget.exhausted_s.reset();
  }
}

void on(State& state, const SpendCutOff& e) {
  end_lines(state, e.at_s, false);
}

void on(State& state, const BudgetExhausted& e) {
  end_lines(state, e.at_s, true);
  named(state, e.name).exhausted_s = e.at_s;
}

void on(State& state, const ThresholdReached& e) {
  named(state, e.name).reached = e.percent;
}

void on(State& state, const Recovered& e) {
  named(state, e.name).reached = e.percent;
}

void on(State& state, const RefusalNoted& e) {
  state.smallest_refused = state.smallest_refused ? std::min(*state.smallest_refused, e.hold) : e.hold;
}

void on(State& state, const FundsChanged&) {
  state.smallest_refused.reset();
}

std::chrono::year_month month_at(MoneySecond at_s) {
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(to_instant(at_s)));
  return day.year() / day.month();
}

MoneySecond first_second(std::chrono::year_month month) {
  return to_money_second(Instant(std::chrono::sys_days(month / std::chrono::day(1))));
}

}  // namespace

std::string_view to_string(Period period) {
  return period == Period::kMonthly ? "Monthly" : "Total";
}

std::optional<Period> period_of(std::string_view text) {
  for (const auto period : {Period::kMonthly, Period::kTotal})
    if (text == to_string(period)) return period;
  return std::nullopt;
}

void evolve(State& state, const Event& event) {
  std::visit([&](const auto& e) { on(state, e); }, event);
}

MoneySecond month_of(MoneySecond at_s) {
  return first_second(month_at(at_s));
}

MoneySecond next_month(MoneySecond at_s) {
  return first_second(month_at(at_s) + std::chrono::months(1));
}

const Budget* find(const State& state, const std::string& name) {
  const auto found = std::ranges::find(state.budgets, name, &Budget::name);
  return found == state.budgets.end() ? nullptr : &*found;
}

Money spent(const State& state, const Budget& budget, MoneySecond at_s) {
  if (budget.spec.period == Period::kMonthly && at_s >= next_month(state.month_s))
    return state.rate * (at_s - month_of(at_s));
  return constant(sums(state, budget)) + state.rate * at_s;
}

Money held(const State& state) {
  return state.held_funded + state.held_open;
}

Money available(const State& state, const Budget& budget, MoneySecond at_s) {
  return budget.spec.limit - spent(state, budget, at_s) - held(state);
}

const Budget* tightest(const State& state, MoneySecond at_s) {
  const auto left = [&](const Budget& b) { return available(state, b, at_s); };
  const auto least = std::ranges::min_element(state.budgets, {}, left);
  return least == state.budgets.end() ? nullptr : &*least;
}

std::optional<MoneySecond> ends_at(const State& state, const Budget& budget) {
  const int128 rate = state.rate.pico_per_second();
  if (rate == 0) return std::nullopt;
  // The last t with constant + rate × t ≤ limit less what is set aside.
  const Money free = budget.spec.limit - state.held_funded - constant(sums(state, budget));
  auto end = second_of(floor_div(free.pico(), rate));
  if (!end) return std::nullopt;
  end = std::max(*end, state.since_s);
  if (budget.spec.period == Period::kMonthly && *end >= next_month(state.month_s)) return std::nullopt;
  return end;
}

std::optional<MoneySecond> ends_at(const State& state) {
  std::optional<MoneySecond> first;
  for (const auto& budget : state.budgets) {
    const auto end = ends_at(state, budget);
    if (end && (!first || *end < *first)) first = end;
  }
  return first;
}

std::optional<MoneySecond> reaches_at(const State& state, const Budget& budget, int percent) {
  const int128 rate = state.rate.pico_per_second();
  if (rate == 0) return std::nullopt;
  // The first t with 100 × (constant + rate × t) ≥ percent × limit.
  const int128 missing = budget.spec.limit.pico() * percent - constant(sums(state, budget)).pico() * 100;
  auto at = second_of(-floor_div(-missing, rate * 100));
  if (at) at = std::max(*at, state.since_s);
  if (!at || (budget.spec.period == Period::kMonthly && *at >= next_month(state.month_s)))
    return std::nullopt;
  return at;
}

const Exhaustion* exhaustion(const State& state, int64_t era) {
  const auto entry = std::ranges::find(state.exhaustions, era, &Exhaustion::era);
  return entry == state.exhaustions.end() ? nullptr : &*entry;
}

std::optional<Instant> next_deadline(const State& state, Instant after) {
  std::optional<Instant> first;
  const auto sooner = [&](std::optional<MoneySecond> second) {
    if (!second) return;
    const Instant at = to_instant(*second);
    if (at > after && (!first || at < *first)) first = at;
  };
  for (const auto& budget : state.budgets) {
    sooner(ends_at(state, budget));
    for (const int percent : budget.spec.thresholds)
      if (percent > budget.reached) sooner(reaches_at(state, budget, percent));
    const bool counts = state.open > 0 || state.month.spent > Money() || state.month.pending > Money() ||
                        budget.reached > 0 || budget.exhausted_s || state.smallest_refused;
    if (budget.spec.period == Period::kMonthly && counts) sooner(next_month(state.month_s));
  }
  return first;
}

}  // namespace nodus::metering::budget
