#include "libs/money/money.hpp"

#include <gtest/gtest.h>

#include <random>

namespace nodus {
namespace {

TEST(Money, ParsesExactly) {
  EXPECT_EQ(Money::parse("1.00")->pico(), int128{1'000'000'000'000});
  EXPECT_EQ(Money::parse("0.000000000001")->pico(), int128{1});
  EXPECT_EQ(Money::parse("-2.5")->pico(), int128{-2'500'000'000'000});
  EXPECT_EQ(Money::parse("999999999999999")->to_decimal(), "999999999999999.000000000000");
}

TEST(Money, RefusesWhatIsNotAnAmount) {
  for (const char* text : {"", ".", "1.", ".5", "+1", " 1", "1 ", "1e3", "NaN", "inf", "0x1", "1,000", "--1",
                           "1.0000000000001", "1000000000000000", "1.-5", "$1"})
    EXPECT_FALSE(Money::parse(text).has_value()) << text;
}

TEST(Money, DecimalTextRoundTrips) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10'000; ++i) {
    const auto money = Money::from_pico(static_cast<int64_t>(random()));
    ASSERT_EQ(Money::parse(money.to_decimal()), money) << money.to_decimal();
  }
}

TEST(Money, DisplayRoundsHalfUpToFourDecimals) {
  EXPECT_EQ(Money::parse("0.00415")->to_display(), "$0.0042");
  EXPECT_EQ(Money::parse("0.00414999")->to_display(), "$0.0041");
  EXPECT_EQ(Money::parse("-0.00001")->to_display(), "$0.0000");
  EXPECT_EQ(Money::parse("12")->to_display(), "$12.0000");
}

TEST(Rate, TimesSecondsIsExact) {
  EXPECT_EQ((Rate::from_pico_per_second(5'833'333) * 720).pico(), int128{4'199'999'760});
}

}  // namespace
}  // namespace nodus
