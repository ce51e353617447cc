// Durations and quantities: exact integer arithmetic, so that nothing is rounded and nothing overflows.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "libs/config/config.hpp"

namespace nodus::config {

namespace {

using Wide = __int128;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr Wide kWideMax = ~(Wide{1} << 127);
constexpr size_t kMaxDigits = 19;  // as many as the largest value has; 10^19 × 2^60 stays below 2^127
constexpr int kMaxExponent = 18;   // as many as E has

// digits × 10^-scale
struct Decimal {
  Wide digits = 0;
  Wide divisor = 1;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Takes a decimal number off the front of `text`; false when there is none or it has too many digits.
bool take_decimal(std::string_view& text, Decimal& number) {
  number = {};
  size_t significant = 0, seen = 0;
  bool fraction = false;
  size_t at = 0;
  Wide pending = 1;  // trailing zeros of the fraction do not count until another digit follows
  for (; at < text.size() && (is_digit(text[at]) || (text[at] == '.' && !fraction)); ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    ++seen;
    if (seen > 64) return false;
    const int digit = text[at] - '0';
    if (fraction && digit == 0) {
      if (pending < Wide{1'000'000'000'000'000'000}) pending *= 10;
      continue;
    }
    if (fraction) {
      if (pending >= Wide{1'000'000'000'000'000'000}) return false;
      pending *= 10;
      for (Wide zeros = pending; zeros > 1; zeros /= 10) ++significant;
      if (significant > kMaxDigits) return false;
      number.digits = number.digits * pending + digit;
      number.divisor *= pending;
      pending = 1;
    } else if (number.digits != 0 || digit != 0) {
      if (++significant > kMaxDigits) return false;
      number.digits = number.digits * 10 + digit;
    }
  }
  text.remove_prefix(at);
  return seen > 0;
}

struct Suffix {
  std::string_view name;
  Wide multiplier;
  Wide divisor = 1;
};

constexpr std::array<Suffix, 16> kSuffixes{{{"", 1},
                                            {"n", 1, 1'000'000'000},
                                            {"u", 1, 1'000'000},
                                            {"m", 1, 1000},
                                            {"k", 1'000},
                                            {"M", 1'000'000},
                                            {"G", 1'000'000'000},
                                            {"T", 1'000'000'000'000},
                                            {"P", 1'000'000'000'000'000},
                                            {"E", 1'000'000'000'000'000'000},
                                            {"Ki", Wide{1} << 10},
                                            {"Mi", Wide{1} << 20},
                                            {"Gi", Wide{1} << 30},
                                            {"Ti", Wide{1} << 40},
                                            {"Pi", Wide{1} << 50},
                                            {"Ei", Wide{1} << 60}}};

std::unexpected<Error> fault(std::string message) {
  return fail(Code::kInvalid, "FieldValueInvalid", std::move(message));
}

// A decimal exponent, "e3" or "E-2": 10 to that power. False when `text` is none.
bool take_exponent(std::string_view text, Suffix& suffix) {
  if (text.size() < 2 || (text.front() != 'e' && text.front() != 'E')) return false;
  text.remove_prefix(1);
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  if (text.empty() || text.size() > 2 || !std::ranges::all_of(text, is_digit)) return false;
  int exponent = 0;
  for (const char c : text) exponent = exponent * 10 + (c - '0');
  if (exponent > kMaxExponent) return false;
  Wide power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  suffix = negative ? Suffix{"", 1, power} : Suffix{"", power, 1};
  return true;
}

bool take_suffix(std::string_view text, Suffix& suffix) {
  for (const Suffix& candidate : kSuffixes)
    if (candidate.name == text) {
      suffix = candidate;
      return true;
    }
  return take_exponent(text, suffix);
}

// The number times `scale`, as a whole number.
Result<int64_t> parse_quantity(std::string_view text, Wide scale, std::string_view example,
                               std::string_view finest) {
  std::string_view rest = text;
  Decimal number;
  Suffix suffix{};
  if (text.size() > 80 || !take_decimal(rest, number) || !take_suffix(rest, suffix))
    return fault(fmt::format("\"{}\" is not a quantity such as {}.", text.substr(0, 80), example));
  const auto too_large = [&] { return fault(fmt::format("\"{}\" is too large.", text)); };
  const Wide multiplier = suffix.multiplier * scale;
  if (number.digits > kWideMax / multiplier) return too_large();
  const Wide numerator = number.digits * multiplier;
  const Wide denominator = number.divisor * suffix.divisor;
  if (numerator % denominator != 0)
    return fault(fmt::format("\"{}\" is finer than {}, which cannot be kept; round it.", text, finest));
  if (numerator / denominator > kMax) return too_large();
  return static_cast<int64_t>(numerator / denominator);
}

struct TimeUnit {
  std::string_view name;
  int64_t nanos;
};
// Longer names first: "ms" before "m".
constexpr std::array<TimeUnit, 7> kTimeUnits{{{"ns", 1},
                                              {"us", 1'000},
                                              {"\u00b5s", 1'000},
                                              {"ms", 1'000'000},
                                              {"s", 1'000'000'000},
                                              {"m", 60'000'000'000},
                                              {"h", 3'600'000'000'000}}};

}  // namespace

Result<Micros> parse_duration(std::string_view text) {
  const auto malformed = [&] {
    return fault(fmt::format("\"{}\" is not a duration such as 30s, 5m or 1h30m.", text.substr(0, 80)));
  };
  if (text == "0") return Micros(0);
  if (text.empty() || text.size() > 80) return malformed();
  Wide total_micros = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    Decimal number;
    if (!take_decimal(rest, number)) return malformed();
    const TimeUnit* unit = nullptr;
    for (const TimeUnit& candidate : kTimeUnits)
      if (!unit && rest.starts_with(candidate.name)) unit = &candidate;
    if (!unit) return malformed();
    rest.remove_prefix(unit->name.size());
    const Wide numerator = number.digits * unit->nanos;
    const Wide denominator = number.divisor * 1000;
    if (numerator % denominator != 0)
      return fault(fmt::format("\"{}\" is finer than a microsecond, which cannot be kept; round it.", text));
    total_micros += numerator / denominator;
    if (total_micros > kMax) return fault(fmt::format("\"{}\" is too long.", text));
  }
  return Micros(static_cast<int64_t>(total_micros));
}

std::string format_duration(Micros duration) {
  if (duration < Micros(0)) return "-" + format_duration(-duration);
  const int64_t micros = duration.count();
  if (micros == 0) return "0s";
  if (micros < 1'000) return fmt::format("{}us", micros);
  if (micros < 1'000'000)
    return micros % 1'000 == 0 ? fmt::format("{}ms", micros / 1'000) : fmt::format("{}us", micros);
  std::string text;
  if (const int64_t hours = micros / 3'600'000'000; hours > 0) text += fmt::format("{}h", hours);
  if (const int64_t minutes = micros / 60'000'000 % 60; minutes > 0) text += fmt::format("{}m", minutes);
  const int64_t seconds = micros / 1'000'000 % 60;
  std::string fraction;
  if (micros % 1'000'000 != 0) {
    fraction = fmt::format(".{:06}", micros % 1'000'000);
    fraction.erase(fraction.find_last_not_of('0') + 1);
  }
  if (seconds > 0 || !fraction.empty()) text += fmt::format("{}{}s", seconds, fraction);
  return text;
}

Result<int64_t> parse_cpu_milli(std::string_view text) {
  return parse_quantity(text, 1000, "1, 0.5 or 250m", "a thousandth of a vCPU");
}

Result<int64_t> parse_bytes(std::string_view text) {
  return parse_quantity(text, 1, "2Gi, 512Mi, 500M or 1048576", "a byte");
}

std::string format_cpu(int64_t milli) {
  return milli % 1000 == 0 ? fmt::to_string(milli / 1000) : fmt::format("{}m", milli);
}

std::string format_bytes(int64_t bytes) {
  if (bytes != 0)
    for (const auto& [name, shift] : {std::pair{"Pi", 50}, {"Ti", 40}, {"Gi", 30}, {"Mi", 20}, {"Ki", 10}})
      if (bytes % (int64_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, name);
  return fmt::to_string(bytes);
}

}  // namespace nodus::config
