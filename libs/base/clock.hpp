// Time: instants are UTC microseconds; local time does not exist here. Durations that must survive a
// wall-clock step come from the boot clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "libs/base/error.hpp"

namespace nodus {

using Micros = std::chrono::microseconds;
using Millis = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;
using Instant = std::chrono::sys_time<Micros>;

inline int64_t to_micros(Instant at) {
  return at.time_since_epoch().count();
}
inline Instant from_micros(int64_t micros) {
  return Instant(Micros(micros));
}

std::string to_rfc3339(Instant at);                    // 2026-01-02T03:04:05.678901Z, fraction only if any
Result<Instant> parse_rfc3339(std::string_view text);  // accepts what to_rfc3339 writes

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;  // wall clock, UTC
  virtual Micros boot() const = 0;  // CLOCK_BOOTTIME: never steps, counts suspend
};

class SystemClock final : public Clock {
 public:
  Instant now() const override;
  Micros boot() const override;
};

// For tests: moves only when told. Thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = from_micros(1'700'000'000'000'000)) : now_(start) {}
  Instant now() const override;
  Micros boot() const override;
  void advance(Micros by);

 private:
  mutable std::mutex mutex_;
  Instant now_;
  Micros boot_{1'000'000};
};

}  // namespace nodus
