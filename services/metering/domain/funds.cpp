#include "services/metering/domain/funds.hpp"

#include <algorithm>

#include "services/metering/domain/lots.hpp"

namespace nodus::metering {

Funds funds_at(account::State state, MoneySecond now_s) {
  // An end that no deadline has recorded yet is one all the same.
  while (const auto end = account::next_end(state, now_s, false)) account::evolve(state, *end);
  const Money used = state.pending + account::accrued(state, now_s);
  Funds funds{account::balance(state) - used,
              state.held_funded + state.held_open,
              std::max(account::available(state, now_s), Money()),
              state.rate,
              account::money_ends_at(state),
              {}};
  account::use_up(state, account::used_at(state, now_s));
  for (auto& lot : state.lots)
    if (lot.expires_s) funds.expiring.push_back(std::move(lot));
  return funds;
}

}  // namespace nodus::metering
