// What the scheduler tells of a start, and money time.
#pragma once

#include <cstdint>
#include <optional>

#include "libs/base/clock.hpp"
#include "libs/base/ids.hpp"

namespace nodus::metering {

// Money time: whole UTC seconds since 1970. Every instant is rounded up before rating, so that the lines of
// an interval add up by themselves and intervals cannot overlap.
using MoneySecond = int64_t;

inline MoneySecond to_money_second(Instant at) {
  return std::chrono::ceil<Seconds>(at).time_since_epoch().count();
}
inline Instant to_instant(MoneySecond second) {
  return Instant(Seconds(second));
}

struct SlotRef {
  SandboxUid uid;
  int64_t start = 0;  // 1, 2, 3 … within the Sandbox
  int64_t epoch = 0;  // 0 before a reservation
  OrgId org;
  ProjectId project;

  bool operator==(const SlotRef&) const = default;
};

// The scheduler's clock. Each event repeats the instants known so far.
struct Times {
  std::optional<Instant> reserved;
  std::optional<Instant> started;
  std::optional<Instant> stopping;
  std::optional<Instant> released;

  bool operator==(const Times&) const = default;
};

// What is known after `more` was heard: an instant once known stays, but for `stopping`. An idle stop may be
// declined, and the next one has an instant of its own, so the last word counts.
inline Times merge(const Times& known, const Times& more) {
  return {known.reserved ? known.reserved : more.reserved, known.started ? known.started : more.started,
          more.stopping ? more.stopping : known.stopping, known.released ? known.released : more.released};
}

}  // namespace nodus::metering
