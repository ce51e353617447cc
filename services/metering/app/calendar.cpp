#include "services/metering/app/calendar.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <charconv>
#include <chrono>

namespace nodus::metering {

namespace {

using std::chrono::sys_days;
using std::chrono::year_month_day;

year_month_day date_of(int64_t day) {
  return {sys_days(std::chrono::days(day))};
}

// Exactly `size` digits at the front of `text`, taken away.
std::optional<int> take_digits(std::string_view& text, size_t size) {
  int value = 0;
  if (text.size() < size) return std::nullopt;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + size, value);
  if (fault != std::errc() || end != text.data() + size || text.front() == '-') return std::nullopt;
  text.remove_prefix(size);
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<Month> take_month(std::string_view& text) {
  const auto year = take_digits(text, 4);
  if (!year || *year < 2000 || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || *month < 1 || *month > 12) return std::nullopt;
  return *year * 100 + *month;
}

}  // namespace

Month month_of(MoneySecond second) {
  const auto date = date_of(second / kDaySeconds);
  return static_cast<int>(date.year()) * 100 + static_cast<int>(static_cast<unsigned>(date.month()));
}

Month next_month(Month month) {
  return month % 100 == 12 ? month + 89 : month + 1;
}

MoneySecond begin_of(Month month) {
  const year_month_day first(std::chrono::year(month / 100),
                             std::chrono::month(static_cast<unsigned>(month % 100)), std::chrono::day(1));
  return sys_days(first).time_since_epoch().count() * kDaySeconds;
}

std::string to_string(Month month) {
  return fmt::format("{:04}-{:02}", month / 100, month % 100);
}

std::optional<Month> parse_month(std::string_view text) {
  const auto month = take_month(text);
  return text.empty() ? month : std::nullopt;
}

std::string day_text(int64_t day) {
  const auto date = date_of(day);
  return fmt::format(FMT_COMPILE("{:04}-{:02}-{:02}"), static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

std::optional<int64_t> parse_day(std::string_view text) {
  const auto month = take_month(text);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || !text.empty()) return std::nullopt;
  const year_month_day date(std::chrono::year(*month / 100),
                            std::chrono::month(static_cast<unsigned>(*month % 100)),
                            std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  return sys_days(date).time_since_epoch().count();
}

}  // namespace nodus::metering
