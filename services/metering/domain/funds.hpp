// What an organization has, at a second: the account's line, read off.
#pragma once

#include "services/metering/domain/account.hpp"

namespace nodus::metering {

struct Funds {
  Money balance;                       // less what open lines have used so far
  Money held;                          // for starts that are funded or run
  Money available;                     // for a new start; never below zero
  Rate rate;                           // what runs, in all
  std::optional<MoneySecond> ends_s;   // the last second that it can pay, if nothing changes
  std::vector<account::Lot> expiring;  // Grants that expire, with what is left of them
};
Funds funds_at(account::State state, MoneySecond now_s);

}  // namespace nodus::metering
