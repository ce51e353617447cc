#include "services/metering/domain/account.hpp"

#include <algorithm>

#include "libs/base/check.hpp"
#include "services/metering/domain/lots.hpp"

namespace nodus::metering::account {

namespace {

// Beyond the year 9999 is for ever; keeps instants within 64 bits of microseconds.
constexpr int128 kForEver = 253'402'300'800;

Rate plus(Rate a, Rate b) {
  return Rate::from_pico_per_second(a.pico_per_second() + b.pico_per_second());
}
Rate minus(Rate a, Rate b) {
  return Rate::from_pico_per_second(a.pico_per_second() - b.pico_per_second());
}

int128 floor_div(int128 a, int128 b) {
  return a / b - (a % b != 0 && a < 0 ? 1 : 0);
}

void remove_live(State& state, Rate rate, MoneySecond from_s, Money hold) {
  state.rate = minus(state.rate, rate);
  state.base -= rate * from_s;
  state.held_open -= hold;
  --state.open;
  CHECK(state.open >= 0 && state.rate >= Rate(), "more lines ended than began");
}

void on(State& state, const CreditPosted& e) {
  state.org = e.org;
  state.credits += e.amount;
  if (e.used) use_up(state, *e.used);
  if (e.amount > Money()) add_lot(state, e);
  if (e.amount < Money()) take_back(state, -e.amount);
}

void on(State& state, const CreditExpired& e) {
  use_up(state, e.used);
  state.credits -= e.amount;
  drop_lot(state, e);
}

void on(State& state, const FirstPurchase&) {
  state.purchased = true;
}

void on(State& state, const HoldPlaced& e) {
  state.org = e.org;
  state.held_funded += e.hold;
  ++state.funded;
}

void on(State& state, const HoldFreed& e) {
  state.held_funded -= e.hold;
  --state.funded;
  CHECK(state.funded >= 0, "more holds freed than placed");
}

void on(State& state, const AccrualStarted& e) {
  state.held_funded -= e.hold;
  if (!e.storage) --state.funded;
  state.held_open += e.hold;
  state.rate = plus(state.rate, e.rate);
  state.base += e.rate * e.from_s;
  ++state.open;
}

void on(State& state, const AccrualFlattened& e) {
  remove_live(state, e.rate, e.from_s, e.hold);
  state.pending += e.rate * (e.to_s - e.from_s);
}

void on(State& state, const LinesFlattened& e) {
  state.pending += e.rate * e.to_s - e.base;
  state.rate = minus(state.rate, e.rate);
  state.base -= e.base;
  state.held_open -= e.hold;
  state.open -= e.lines;
  CHECK(state.open >= 0 && state.rate >= Rate(), "more lines ended than began");
}

void on(State& state, const BalanceExhausted& e) {
  state.pending += accrued(state, e.at_s);
  state.exhaustions.push_back({state.era, e.at_s, state.open});
  ++state.era;
  state.rate = Rate();
  state.base = Money();
  state.held_open = Money();
  state.open = 0;
}

void on(State& state, const AccrualEnded& e) {
  state.charged += e.amount;
  if (e.line == LineEnd::kLive) {
    remove_live(state, e.rate, e.from_s, e.hold);
    return;
  }
  state.pending -= e.rate * (e.flat_s - e.from_s);
  if (e.line == LineEnd::kCapped) return;
  const auto entry = std::ranges::find(state.exhaustions, e.era, &Exhaustion::era);
  CHECK(entry != state.exhaustions.end(), "era {} is not exhausted", e.era);
  if (--entry->starts == 0) state.exhaustions.erase(entry);
}

void on(State& state, const RefusalNoted& e) {
  state.org = e.org;
  state.smallest_refused = state.smallest_refused ? std::min(*state.smallest_refused, e.hold) : e.hold;
}

void on(State& state, const FundsChanged&) {
  state.smallest_refused.reset();
}

}  // namespace

void evolve(State& state, const Event& event) {
  std::visit([&](const auto& e) { on(state, e); }, event);
}

Money balance(const State& state) {
  return state.credits - state.charged;
}

Money accrued(const State& state, MoneySecond at_s) {
  return state.rate * at_s - state.base;
}

Money available(const State& state, MoneySecond at_s) {
  return balance(state) - state.pending - state.held_funded - state.held_open - accrued(state, at_s);
}

std::optional<MoneySecond> ends_at(const State& state) {
  const int128 rate = state.rate.pico_per_second();
  if (rate == 0) return std::nullopt;
  // The last t with rate × t − base ≤ what is free.
  const Money free = balance(state) - state.pending - state.held_funded;
  const int128 end = floor_div((free + state.base).pico(), rate);
  if (end >= kForEver) return std::nullopt;
  return static_cast<MoneySecond>(end);
}

std::optional<MoneySecond> exhausted_at(const State& state, int64_t era) {
  const auto entry = std::ranges::find(state.exhaustions, era, &Exhaustion::era);
  if (entry == state.exhaustions.end()) return std::nullopt;
  return entry->at_s;
}

std::optional<MoneySecond> stop_at(const State& state, Seconds stop_reserve) {
  const auto end = money_ends_at(state);
  if (!end) return std::nullopt;
  return *end - stop_reserve.count();
}

std::optional<Instant> next_deadline(const State& state, Seconds stop_reserve, Instant after) {
  const auto end = money_ends_at(state);
  if (!end) return std::nullopt;
  const Instant stop = to_instant(*end - stop_reserve.count());
  const Instant over = to_instant(*end) + Micros(1);
  if (stop > after) return stop;
  if (over > after) return over;
  return std::nullopt;
}

}  // namespace nodus::metering::account
