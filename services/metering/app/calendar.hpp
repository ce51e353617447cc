// Months and days of money time. UTC, proleptic Gregorian.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "services/metering/domain/slot.hpp"

namespace nodus::metering {

inline constexpr int64_t kDaySeconds = 86'400;

// A calendar month as the number 202611.
using Month = int;

Month month_of(MoneySecond second);
Month next_month(Month month);
MoneySecond begin_of(Month month);
inline MoneySecond end_of(Month month) {
  return begin_of(next_month(month));
}
std::string to_string(Month month);                       // 2026-11
std::optional<Month> parse_month(std::string_view text);  // 2026-11, of the years 2000 to 9999
std::string day_text(int64_t day);                        // days since 1970 → 2026-11-30
std::optional<int64_t> parse_day(std::string_view text);

}  // namespace nodus::metering
