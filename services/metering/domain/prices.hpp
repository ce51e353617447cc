// The price book, and how a rate is made from it. Rounding happens here and nowhere else.
#pragma once

#include <map>
#include <optional>
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

// Immutable once published. USD per second of a unit, before the 12.5 %.
struct PriceVersion {
  std::string version;
  Instant effective_at;
  Money cpu_per_vcpu_s;
  Money memory_per_gib_s;
  Money disk_per_gib_s;
  Money storage_per_gib_s{};                // of a stopped Sandbox's restore point
  std::map<std::string, Money> machines{};  // by machine type: a whole machine, whatever the shape

  bool operator==(const PriceVersion&) const = default;
};

// The numbers that a rate was made from.
struct PricesUsed {
  Money cpu_per_vcpu_s;
  Money memory_per_gib_s;
  Money disk_per_gib_s;
  std::string machine_type;  // not empty: machine_per_s counts instead of the three above
  Money machine_per_s;
  Shape shape;

  bool operator==(const PricesUsed&) const = default;
};

// Shared capacity: by shape. A machine of its own (`machine_type` is not empty): by that type; nullopt when
// the version has no price for it.
std::optional<PricesUsed> prices_of(const Shape& shape, const std::string& machine_type,
                                    const PriceVersion& price);

// (cpu + memory + disk, or the machine) × 1.125, rounded once, half up, to whole pico-dollars per second.
Rate rate_of(const PricesUsed& prices);

// What a restore point costs, rounded once as above: size in GiB × storage × 1.125.
Rate storage_rate_of(int64_t size_bytes, const PriceVersion& price);

// The version in force: the latest whose instant is not after `at`; null when there is none.
const PriceVersion* in_force(std::span<const PriceVersion> book, Instant at);

// Which of `proposed` are new. Refused: a published version with other values, two versions of one instant,
// and a version that takes effect before now + lead, unless it is the very first.
Result<std::vector<PriceVersion>> to_publish(std::span<const PriceVersion> book,
                                             std::span<const PriceVersion> proposed, Instant now,
                                             Micros lead);

}  // namespace nodus::metering
