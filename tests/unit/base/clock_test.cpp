#include "libs/base/clock.hpp"

#include <gtest/gtest.h>

namespace nodus {
namespace {

TEST(Rfc3339, WritesWhatItReads) {
  for (const int64_t micros :
       {0LL, 1LL, 1'700'000'000'000'000LL, 1'709'164'800'123'456LL, 4'102'444'799'999'999LL}) {
    const auto at = from_micros(micros);
    const auto back = parse_rfc3339(to_rfc3339(at));
    ASSERT_TRUE(back.has_value()) << to_rfc3339(at);
    EXPECT_EQ(*back, at);
  }
  EXPECT_EQ(to_rfc3339(from_micros(0)), "1970-01-01T00:00:00Z");
}

TEST(Rfc3339, RefusesWhatIsNotUtcOrNotAnInstant) {
  for (const char* text : {"", "yesterday", "2026-01-02", "2026-13-02T00:00:00Z", "2026-01-02T03:04:05",
                           "2026-01-02T03:04:05+01:00", "2026-01-02T03:04:05Z and more"})
    EXPECT_FALSE(parse_rfc3339(text).has_value()) << text;
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock(from_micros(5));
  const auto boot = clock.boot();
  clock.advance(Micros(7));
  EXPECT_EQ(clock.now(), from_micros(12));
  EXPECT_EQ(clock.boot() - boot, Micros(7));
}

}  // namespace
}  // namespace nodus
