#include "services/metering/domain/prices.hpp"

#include <algorithm>

#include "libs/base/check.hpp"

namespace nodus::metering {

std::optional<PricesUsed> prices_of(const Shape& shape, const std::string& machine_type,
                                    const PriceVersion& price) {
  PricesUsed used{
      price.cpu_per_vcpu_s, price.memory_per_gib_s, price.disk_per_gib_s, machine_type, {}, shape};
  if (machine_type.empty()) return used;
  const auto machine = price.machines.find(machine_type);
  if (machine == price.machines.end()) return std::nullopt;
  used.machine_per_s = machine->second;
  return used;
}

Rate rate_of(const PricesUsed& prices) {
  constexpr int128 kMilli = 1'000;
  constexpr int128 kGib = 1LL << 30;
  const Shape& shape = prices.shape;
  CHECK(shape.cpu_milli >= 0 && shape.memory_bytes >= 0 && shape.disk_bytes >= 0);
  // Everything over one denominator, so that the only inexact step is the last division. 1.125 is 9/8.
  const int128 sum = prices.machine_type.empty()
                         ? prices.cpu_per_vcpu_s.pico() * shape.cpu_milli * kGib +
                               prices.memory_per_gib_s.pico() * shape.memory_bytes * kMilli +
                               prices.disk_per_gib_s.pico() * shape.disk_bytes * kMilli
                         : prices.machine_per_s.pico() * kMilli * kGib;
  const int128 numerator = 9 * sum;
  constexpr int128 kDenominator = 8 * kMilli * kGib;
  return Rate::from_pico_per_second((numerator + kDenominator / 2) / kDenominator);
}

Rate storage_rate_of(int64_t size_bytes, const PriceVersion& price) {
  CHECK(size_bytes >= 0);
  constexpr int128 kDenominator = int128{8} << 30;
  const int128 numerator = 9 * price.storage_per_gib_s.pico() * size_bytes;
  return Rate::from_pico_per_second((numerator + kDenominator / 2) / kDenominator);
}

const PriceVersion* in_force(std::span<const PriceVersion> book, Instant at) {
  const PriceVersion* best = nullptr;
  for (const auto& version : book) {
    if (version.effective_at > at) continue;
    if (best == nullptr || version.effective_at > best->effective_at) best = &version;
  }
  return best;
}

Result<std::vector<PriceVersion>> to_publish(std::span<const PriceVersion> book,
                                             std::span<const PriceVersion> proposed, Instant now,
                                             Micros lead) {
  std::vector<PriceVersion> published(book.begin(), book.end());
  std::vector<PriceVersion> fresh(proposed.begin(), proposed.end());
  std::ranges::sort(fresh, {}, &PriceVersion::effective_at);
  std::vector<PriceVersion> result;
  for (const auto& version : fresh) {
    const auto known = std::ranges::find(published, version.version, &PriceVersion::version);
    if (known != published.end()) {
      if (*known == version) continue;
      return fail(
          Code::kConflict, "PriceVersionPublished",
          "Price version " + version.version + " is published with other values; give a new version.");
    }
    if (std::ranges::find(published, version.effective_at, &PriceVersion::effective_at) != published.end())
      return fail(Code::kConflict, "PriceInstantTaken",
                  "Price version " + version.version + " takes effect at the same instant as another.");
    if (!published.empty() && version.effective_at < now + lead)
      return fail(Code::kInvalid, "PriceTooSoon",
                  "Price version " + version.version + " takes effect at " +
                      to_rfc3339(version.effective_at) + ", which is sooner than " + to_rfc3339(now + lead) +
                      ".");
    published.push_back(version);
    result.push_back(version);
  }
  return result;
}

}  // namespace nodus::metering
