#include "services/metering/domain/lots.hpp"

#include <algorithm>
#include <limits>
#include <ranges>
#include <tuple>

namespace nodus::metering::account {

namespace {

constexpr MoneySecond kNever = std::numeric_limits<MoneySecond>::max();

auto order(const Lot& lot) {
  return std::tuple(lot.priority, lot.expires_s.value_or(kNever));
}

Money take(Lot& lot, Money wanted) {
  const Money taken = std::min(lot.left, wanted);
  lot.left -= taken;
  return taken;
}

void sweep(State& state) {
  std::erase_if(state.lots, [](const Lot& lot) { return lot.left <= Money(); });
}

// Where the expiry of a lot is reckoned: at its instant, or, when holds kept something of it, now.
MoneySecond second_of(const Lot& lot, MoneySecond by_s) {
  return lot.steps > 0 ? by_s : *lot.expires_s;
}

}  // namespace

Money used_at(const State& state, MoneySecond at_s) {
  return state.charged + state.pending + accrued(state, at_s);
}

void use_up(State& state, Money used) {
  Money rest = used - state.used_up;
  if (rest <= Money()) return;  // a start ended earlier than was thought: what is used next makes up for it
  state.used_up = used;
  for (auto& lot : state.lots) rest -= take(lot, rest);
  sweep(state);
}

void add_lot(State& state, const CreditPosted& credit) {
  Lot lot{credit.expires_s ? credit.id : "", credit.priority, credit.expires_s, credit.amount, 0};
  const auto place = std::ranges::upper_bound(state.lots, order(lot), {}, order);
  if (!lot.expires_s && place != state.lots.begin() && order(*std::prev(place)) == order(lot))
    std::prev(place)->left += lot.left;
  else
    state.lots.insert(place, std::move(lot));
}

void take_back(State& state, Money amount) {
  for (const bool lasting : {true, false})
    for (auto& lot : std::views::reverse(state.lots))
      if (lot.expires_s.has_value() != lasting) amount -= take(lot, amount);
  sweep(state);
  // The rest is in no lot: a start ended earlier than was thought, and its lots count as used up. Now that
  // much less of them is to be made up for.
  state.used_up -= amount;
}

void drop_lot(State& state, const CreditExpired& expired) {
  for (auto& lot : state.lots) {
    if (!lot.expires_s || lot.id != expired.id) continue;
    lot.left -= expired.amount;
    lot.steps = expired.step;
  }
  sweep(state);
}

std::optional<CreditExpired> next_expiry(const State& state, MoneySecond by_s) {
  std::vector<const Lot*> due;
  for (const auto& lot : state.lots)
    if (lot.expires_s && *lot.expires_s <= by_s) due.push_back(&lot);
  std::ranges::sort(due, {}, [&](const Lot* lot) { return second_of(*lot, by_s); });
  for (const Lot* lot : due) {
    const MoneySecond at_s = second_of(*lot, by_s);
    State then = state;
    use_up(then, used_at(state, at_s));
    const auto left = std::ranges::find_if(
        then.lots, [&](const Lot& other) { return other.expires_s.has_value() && other.id == lot->id; });
    const Money free = balance(state) - state.pending - accrued(state, at_s) - state.held_funded;
    const Money unused = left == then.lots.end() ? Money() : left->left;
    const Money amount = std::max(std::min(unused, free), Money());
    // Its instant is recorded even if nothing is left: what later lines use must not count as used before it.
    if (amount > Money() || lot->steps == 0)
      return CreditExpired{state.org, lot->id, amount, at_s, used_at(state, at_s), lot->steps + 1};
  }
  return std::nullopt;
}

std::optional<Event> next_end(const State& state, MoneySecond at_s, bool brake) {
  const auto end = ends_at(state);
  const bool ends = end && *end < at_s && !brake;
  auto expired = next_expiry(state, at_s);
  if (expired && (!ends || expired->at_s <= *end)) return *expired;
  if (ends) return BalanceExhausted{state.org, *end};
  return std::nullopt;
}

std::optional<MoneySecond> expires_next(const State& state, MoneySecond after_s) {
  std::optional<MoneySecond> next;
  for (const auto& lot : state.lots)
    if (lot.expires_s && *lot.expires_s > after_s) next = std::min(next.value_or(kNever), *lot.expires_s);
  return next;
}

namespace {

// Of those whose instant has not come: what holds kept of the others ends no line in the past.
std::optional<MoneySecond> comes_next(const State& state, MoneySecond after_s) {
  std::optional<MoneySecond> next;
  for (const auto& lot : state.lots)
    if (lot.expires_s && lot.steps == 0 && *lot.expires_s > after_s)
      next = std::min(next.value_or(kNever), *lot.expires_s);
  return next;
}

}  // namespace

std::optional<MoneySecond> money_ends_at(State state) {
  MoneySecond after_s = std::numeric_limits<MoneySecond>::min();
  for (;;) {
    const auto end = ends_at(state);
    const auto expiry_s = comes_next(state, after_s);
    if (!expiry_s || (end && *end < *expiry_s)) return end;
    after_s = *expiry_s;
    while (const auto expired = next_expiry(state, *expiry_s)) evolve(state, *expired);
  }
}

}  // namespace nodus::metering::account
