// Money is an integer count of pico-dollars (1e-12 USD), 128 bits wide: never a float. Rounding happens only
// where a function says so. Source: ARCHITECTURE.md, Money.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "libs/base/error.hpp"

namespace nodus {

using int128 = __int128;

class Money {
 public:
  constexpr Money() = default;
  static constexpr Money from_pico(int128 pico) {
    Money m;
    m.pico_ = pico;
    return m;
  }
  // "1.00", "-0.000000000001": at most 12 decimals and 15 integer digits; no exponent, no sign "+", no
  // blanks.
  static Result<Money> parse(std::string_view usd);

  constexpr int128 pico() const { return pico_; }
  // All twelve decimals, for JSON and SQL: "1.000000000000".
  std::string to_decimal() const;
  // For people: "$0.0042", four decimals, rounded half up by magnitude.
  std::string to_display() const;

  constexpr Money operator+(Money o) const { return from_pico(pico_ + o.pico_); }
  constexpr Money operator-(Money o) const { return from_pico(pico_ - o.pico_); }
  constexpr Money operator-() const { return from_pico(-pico_); }
  constexpr Money& operator+=(Money o) {
    pico_ += o.pico_;
    return *this;
  }
  constexpr Money& operator-=(Money o) {
    pico_ -= o.pico_;
    return *this;
  }
  constexpr auto operator<=>(const Money&) const = default;

 private:
  int128 pico_ = 0;
};

// A price per second of money time; frozen at the start of a Sandbox.
class Rate {
 public:
  constexpr Rate() = default;
  static constexpr Rate from_pico_per_second(int128 pico) {
    Rate r;
    r.pico_per_second_ = pico;
    return r;
  }
  constexpr int128 pico_per_second() const { return pico_per_second_; }
  constexpr Money operator*(int64_t seconds) const { return Money::from_pico(pico_per_second_ * seconds); }
  std::string to_decimal() const;  // USD per second, twelve decimals
  constexpr auto operator<=>(const Rate&) const = default;

 private:
  int128 pico_per_second_ = 0;
};

}  // namespace nodus
