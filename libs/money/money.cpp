#include "libs/money/money.hpp"

namespace nodus {

namespace {

constexpr int kDecimals = 12;
constexpr int128 kPicoPerDollar = 1'000'000'000'000;

std::string digits(int128 value) {
  if (value == 0) return "0";
  std::string text;
  for (; value > 0; value /= 10)
    text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
  return text;
}

std::string decimal(int128 pico) {
  const int128 magnitude = pico < 0 ? -pico : pico;
  std::string fraction = digits(magnitude % kPicoPerDollar);
  fraction.insert(0, kDecimals - fraction.size(), '0');
  return (pico < 0 ? "-" : "") + digits(magnitude / kPicoPerDollar) + "." + fraction;
}

std::unexpected<Error> not_an_amount(std::string_view text) {
  return fail(Code::kInvalid, "FieldValueInvalid",
              "\"" + std::string(text.substr(0, 64)) +
                  "\" is not a USD amount: digits, at most 12 of them after a point, such as \"5.00\".");
}

}  // namespace

Result<Money> Money::parse(std::string_view usd) {
  std::string_view rest = usd;
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  const size_t point = rest.find('.');
  const std::string_view whole = rest.substr(0, point);
  const std::string_view fraction = point == std::string_view::npos ? "" : rest.substr(point + 1);
  if (whole.empty() || whole.size() > 15 || fraction.size() > kDecimals) return not_an_amount(usd);
  if (point != std::string_view::npos && fraction.empty()) return not_an_amount(usd);
  int128 pico = 0;
  for (const char c : whole) {
    if (c < '0' || c > '9') return not_an_amount(usd);
    pico = pico * 10 + (c - '0');
  }
  for (size_t i = 0; i < kDecimals; ++i) {
    const char c = i < fraction.size() ? fraction[i] : '0';
    if (c < '0' || c > '9') return not_an_amount(usd);
    pico = pico * 10 + (c - '0');
  }
  return from_pico(negative ? -pico : pico);
}

std::string Money::to_decimal() const {
  return decimal(pico_);
}

std::string Money::to_display() const {
  constexpr int128 kUnit = kPicoPerDollar / 10'000;  // four decimals
  const int128 magnitude = ((pico_ < 0 ? -pico_ : pico_) + kUnit / 2) / kUnit;
  std::string fraction = digits(magnitude % 10'000);
  fraction.insert(0, 4 - fraction.size(), '0');
  return (pico_ < 0 && magnitude != 0 ? "-$" : "$") + digits(magnitude / 10'000) + "." + fraction;
}

std::string Rate::to_decimal() const {
  return decimal(pico_per_second_);
}

}  // namespace nodus
