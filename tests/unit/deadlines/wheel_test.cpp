#include "libs/deadlines/wheel.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace nodus::deadlines {
namespace {

constexpr int64_t kStart = 1'700'000'000'000'000;

Instant at(int64_t micros) {
  return from_micros(kStart + micros);
}

Key key(uint64_t n, uint8_t kind = 0) {
  return {n * 0x9E3779B97F4A7C15ULL, n, kind};
}

TEST(Wheel, FiresAtItsTimeAndNotBefore) {
  Wheel wheel(at(0));
  wheel.arm(key(1), at(5'000));
  wheel.advance(at(4'999));
  EXPECT_FALSE(wheel.ready());
  wheel.advance(at(5'000));
  ASSERT_TRUE(wheel.ready());
  EXPECT_EQ(wheel.take(10), (std::vector<Armed>{{key(1), at(5'000)}}));
  EXPECT_EQ(wheel.size(), 0u);
}

TEST(Wheel, AMicrosecondAfterAMillisecondWaitsForTheNext) {
  Wheel wheel(at(0));
  wheel.arm(key(1), at(5'001));
  wheel.advance(at(5'001));
  EXPECT_FALSE(wheel.ready()) << "its tick is rounded up";
  wheel.advance(at(6'000));
  EXPECT_TRUE(wheel.ready());
}

TEST(Wheel, WhatIsOverdueIsReadyAtOnceAndLowerKindsComeFirst) {
  Wheel wheel(at(0));
  wheel.arm(key(1, 2), at(-3'000'000));
  wheel.arm(key(2, 1), at(-2'000'000));
  wheel.arm(key(3, 0), at(-1'000'000));
  wheel.arm(key(4, 0), at(-5'000'000));
  ASSERT_TRUE(wheel.ready());
  std::vector<uint64_t> order;
  for (const auto& armed : wheel.take(3)) order.push_back(armed.key.low);
  for (const auto& armed : wheel.take(3)) order.push_back(armed.key.low);
  EXPECT_EQ(order, (std::vector<uint64_t>{3, 4, 2, 1}));
}

TEST(Wheel, ArmingAgainMovesAndCancellingForgets) {
  Wheel wheel(at(0));
  wheel.arm(key(1), at(10'000));
  wheel.arm(key(1), at(90'000'000));
  EXPECT_EQ(wheel.size(), 1u);
  EXPECT_EQ(wheel.due_of(key(1)), at(90'000'000));
  wheel.advance(at(1'000'000));
  EXPECT_FALSE(wheel.ready());
  wheel.arm(key(1), at(2'000'000));
  wheel.advance(at(2'000'000));
  EXPECT_TRUE(wheel.ready());
  wheel.arm(key(1), at(3'000'000));
  EXPECT_FALSE(wheel.ready()) << "moved also when it was due already";
  EXPECT_TRUE(wheel.cancel(key(1)));
  EXPECT_FALSE(wheel.cancel(key(1)));
  EXPECT_EQ(wheel.due_of(key(1)), std::nullopt);
  EXPECT_EQ(wheel.next(), std::nullopt);
}

TEST(Wheel, FarAndAbsurdTimesAreKept) {
  Wheel wheel(at(0));
  const auto month = std::chrono::hours(720);
  wheel.arm(key(1), at(0) + month);
  wheel.arm(key(2), from_micros(INT64_MAX));
  wheel.arm(key(3), from_micros(INT64_MIN));
  EXPECT_EQ(wheel.take(9).front().key, key(3));
  wheel.advance(at(0) + month - Millis(1));
  EXPECT_FALSE(wheel.ready());
  wheel.advance(at(0) + month);
  EXPECT_EQ(wheel.take(9).size(), 1u);
  EXPECT_EQ(wheel.size(), 1u);
}

TEST(Wheel, AClockThatGoesBackFiresNothingTwice) {
  Wheel wheel(at(0));
  wheel.arm(key(1), at(5'000));
  wheel.advance(at(10'000));
  EXPECT_EQ(wheel.take(9).size(), 1u);
  wheel.advance(at(1'000));
  wheel.arm(key(2), at(7'000));
  EXPECT_TRUE(wheel.ready()) << "its time was reached once";
}

TEST(Wheel, AMillionTakeLessThanAHundredBytesEach) {
  Wheel wheel(at(0));
  std::mt19937_64 random(7);
  for (uint64_t n = 0; n < 1'000'000; ++n)
    wheel.arm(key(n, n % 3), at(static_cast<int64_t>(random() % 2'592'000'000'000)));
  EXPECT_EQ(wheel.size(), 1'000'000u);
  EXPECT_LE(wheel.memory_bytes(), 100u * 1'000'000);
}

// Against a sorted map, over random histories: what is given out is what is due, never early, never lost.
class WheelProperty : public ::testing::TestWithParam<uint64_t> {};

TEST_P(WheelProperty, AgreesWithASortedMap) {
  for (uint64_t seed = GetParam() * 250; seed < (GetParam() + 1) * 250; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
    // Spans of every level, so that all of them are handed down.
    const auto span = [&] { return below(uint64_t{1000} << below(32)) - 2'000; };
    int64_t now = below(1'000'000'000'000);
    Wheel wheel(at(now));
    std::map<uint64_t, int64_t> model;  // key → due
    for (int step = 0; step < 120; ++step) {
      const auto n = static_cast<uint64_t>(below(40));
      const Key k = key(n, n % 3);
      switch (below(6)) {
        case 0:
        case 1:
        case 2:
          model[n] = now + span();
          wheel.arm(k, at(model[n]));
          break;
        case 3:
          ASSERT_EQ(wheel.cancel(k), model.erase(n) == 1);
          break;
        case 4: {
          // Jumps to the next deadline, or anywhere.
          const auto next = wheel.next();
          for (const auto& [id, due] : model)
            ASSERT_TRUE(next && to_micros(*next) <= kStart + std::max(now, due + 999)) << "late for " << id;
          now = next && below(2) ? std::max(now, to_micros(*next) - kStart) : now + below(1000 << below(22));
          wheel.advance(at(now));
          break;
        }
        default: {
          const auto taken = wheel.take(static_cast<size_t>(below(20)));
          for (size_t i = 0; i < taken.size(); ++i) {
            const auto entry = model.find(taken[i].key.low);
            ASSERT_NE(entry, model.end());
            ASSERT_EQ(taken[i].due, at(entry->second));
            ASSERT_LE(taken[i].due, at(now)) << "early";
            if (i > 0) ASSERT_LE(taken[i - 1].key.kind, taken[i].key.kind);
            model.erase(entry);
          }
        }
      }
      ASSERT_EQ(wheel.size(), model.size());
    }
    wheel.advance(from_micros(INT64_MAX / 2));
    std::set<uint64_t> rest;
    for (const auto& armed : wheel.take(1000)) rest.insert(armed.key.low);
    ASSERT_EQ(rest.size(), model.size()) << "lost";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, WheelProperty, ::testing::Range<uint64_t>(0, 16));

}  // namespace
}  // namespace nodus::deadlines
