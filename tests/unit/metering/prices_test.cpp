#include "services/metering/domain/prices.hpp"

#include <gtest/gtest.h>

namespace nodus::metering {
namespace {

using namespace std::chrono_literals;

const Instant kNow = from_micros(1'800'000'000'000'000);

PriceVersion version(const std::string& name, Instant effective, int64_t cpu = 8) {
  return {name, effective, Money::from_pico(cpu), Money::from_pico(cpu), Money::from_pico(cpu)};
}

TEST(Prices, AMachineOfOnesOwnHasOnePriceWhateverTheShape) {
  PriceVersion price = version("v", kNow);
  price.machines["own-16"] = Money::from_pico(8'004);
  for (const Shape& shape : {Shape{}, Shape{64'000, int64_t{1} << 38, int64_t{1} << 37}}) {
    const auto used = prices_of(shape, "own-16", price);
    ASSERT_TRUE(used);
    EXPECT_EQ(static_cast<int64_t>(rate_of(*used).pico_per_second()), 9'005);  // 9004.5
  }
  EXPECT_FALSE(prices_of({}, "own-64", price));
}

TEST(Prices, RoundsOnceHalfUp) {
  constexpr int64_t kGib = 1LL << 30;
  struct Case {
    Shape shape;
    int64_t cpu, memory, disk;
    int64_t rate;
  };
  const std::vector<Case> cases = {
      {{1000, 0, 0}, 8, 0, 0, 9},           // 9 exactly
      {{1000, 0, 0}, 4, 0, 0, 5},           // 4.5 → 5
      {{1000, 0, 0}, 3, 0, 0, 3},           // 3.375 → 3
      {{250, kGib / 8, kGib}, 1, 1, 1, 2},  // (0.25 + 0.125 + 1) × 1.125 = 1.546875 → 2
      {{1, 1, 1}, 1, 1, 1, 0},              // nearly nothing
      {{1000, kGib, 10 * kGib}, 3'500'000, 1'400'000, 28'500, 5'833'125},  // the quick start's
      {{64'000, 256 * kGib, 200 * kGib},
       1'000'000'000'000,
       1'000'000'000'000,
       1'000'000'000'000,
       585'000'000'000'000},
  };
  for (const auto& c : cases) {
    const PriceVersion price{"v", kNow, Money::from_pico(c.cpu), Money::from_pico(c.memory),
                             Money::from_pico(c.disk)};
    EXPECT_EQ(static_cast<int64_t>(rate_of(*prices_of(c.shape, "", price)).pico_per_second()), c.rate);
  }
}

TEST(Prices, TheLatestVersionInForceCounts) {
  const std::vector<PriceVersion> book = {version("a", kNow), version("c", kNow + 2h),
                                          version("b", kNow + 1h)};
  EXPECT_EQ(in_force(book, kNow - 1us), nullptr);
  EXPECT_EQ(in_force(book, kNow)->version, "a");
  EXPECT_EQ(in_force(book, kNow + 1h - 1us)->version, "a");
  EXPECT_EQ(in_force(book, kNow + 1h)->version, "b");
  EXPECT_EQ(in_force(book, kNow + 9h)->version, "c");
}

TEST(Prices, TheFirstMayTakeEffectAtOnceLaterOnesOnlyAhead) {
  const auto first =
      to_publish({}, std::vector{version("a", kNow - 1h), version("b", kNow + 5min)}, kNow, 5min);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->size(), 2u);
  const std::vector<PriceVersion> book = {version("a", kNow - 1h)};
  EXPECT_EQ(to_publish(book, std::vector{version("b", kNow + 5min - 1us)}, kNow, 5min).error().reason,
            "PriceTooSoon");
  EXPECT_EQ(to_publish(book, std::vector{version("b", kNow + 5min)}, kNow, 5min)->size(), 1u);
}

TEST(Prices, APublishedVersionIsImmutable) {
  const std::vector<PriceVersion> book = {version("a", kNow - 1h)};
  EXPECT_TRUE(to_publish(book, book, kNow, 5min)->empty());
  EXPECT_EQ(to_publish(book, std::vector{version("a", kNow - 1h, 9)}, kNow, 5min).error().reason,
            "PriceVersionPublished");
  EXPECT_EQ(to_publish(book, std::vector{version("z", kNow - 1h)}, kNow, 5min).error().reason,
            "PriceInstantTaken");
}

}  // namespace
}  // namespace nodus::metering
