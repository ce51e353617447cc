// The price book, and how a rate is made from it. Rounding happens here and nowhere else.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/money/money.hpp"

namespace nodus::metering {

struct Shape {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;

  bool operator==(const Shape&) const = default;
};

// Immutable once published.
struct PriceVersion {
  std::string version;
  Instant effective_at;
  Money cpu_per_vcpu_s;
  Money memory_per_gib_s;
  Money disk_per_gib_s;

  bool operator==(const PriceVersion&) const = default;
};

// (cpu + memory + disk) × 1.125, rounded once, half up, to whole pico-dollars per second.
Rate rate_of(const Shape& shape, const PriceVersion& price);

// The version in force: the latest whose instant is not after `at`; null when there is none.
const PriceVersion* in_force(std::span<const PriceVersion> book, Instant at);

// Which of `proposed` are new. Refused: a published version with other values, two versions of one instant,
// and a version that takes effect before now + lead, unless it is the very first.
Result<std::vector<PriceVersion>> to_publish(std::span<const PriceVersion> book,
                                             std::span<const PriceVersion> proposed, Instant now,
                                             Micros lead);

}  // namespace nodus::metering
