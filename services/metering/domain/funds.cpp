#include "services/metering/domain/funds.hpp"

#include <algorithm>

namespace nodus::metering {

Funds funds_at(account::State state, MoneySecond now_s) {
  // An end that no deadline has recorded yet is one all the same.
  if (const auto end = account::ends_at(state); end && *end < now_s)
    account::evolve(state, account::BalanceExhausted{state.org, *end});
  const Money used = state.pending + account::accrued(state, now_s);
  return {account::balance(state) - used, state.held_funded + state.held_open,
          std::max(account::available(state, now_s), Money()), state.rate, account::ends_at(state)};
}

}  // namespace nodus::metering
