// Which credit is used first, and what of a Grant is unused at its instant.
//
// Credits lie in lots: a Grant that expires is one of its own, everything else of a priority is one together.
// What charges and lines use comes from the first lot: the smallest priority, then the earliest expiry, then
// the oldest. Lots are brought up to date only where they matter, at the instants at which a credit is posted
// or expires; each of those events says how much was used by then, so that a replay needs no clock.
#pragma once

#include <optional>

#include "services/metering/domain/account.hpp"

namespace nodus::metering::account {

inline constexpr size_t kMaxExpiring = 64;  // Grants at a time

// Takes what was used since the last time from the lots.
void use_up(State& state, Money used);
void add_lot(State& state, const CreditPosted& credit);
// A Refund or Adjustment takes from the lot that would be used last; before all, from one that never expires.
void take_back(State& state, Money amount);
void drop_lot(State& state, const CreditExpired& expired);

// The next Grant, of those whose instant is not after `by_s`, that has something to lose. What holds of
// funded starts need stays until they let go of it.
std::optional<CreditExpired> next_expiry(const State& state, MoneySecond by_s);
// When one may expire next, after `after_s`; whether something is left of it then, is not asked.
std::optional<MoneySecond> expires_next(const State& state, MoneySecond after_s);

// All that charges and lines have used at a second.
Money used_at(const State& state, MoneySecond at_s);

// What is to be recorded next to bring the account up to a second: a Grant that expires by then, or the end
// of the balance before it (unless `brake`).
std::optional<Event> next_end(const State& state, MoneySecond at_s, bool brake);

// ends_at(), with every expiry on the way.
std::optional<MoneySecond> money_ends_at(State state);

}  // namespace nodus::metering::account
