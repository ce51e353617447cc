#include "libs/base/clock.hpp"

#include <date/date.h>
#include <time.h>

#include <sstream>

namespace nodus {

namespace {
Micros read_clock(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return Micros(int64_t{ts.tv_sec} * 1'000'000 + ts.tv_nsec / 1000);
}
}  // namespace

Instant SystemClock::now() const {
  return Instant(read_clock(CLOCK_REALTIME));
}
Micros SystemClock::boot() const {
  return read_clock(CLOCK_BOOTTIME);
}

Instant ManualClock::now() const {
  std::lock_guard lock(mutex_);
  return now_;
}
Micros ManualClock::boot() const {
  std::lock_guard lock(mutex_);
  return boot_;
}
void ManualClock::advance(Micros by) {
  std::lock_guard lock(mutex_);
  now_ += by;
  boot_ += by;
}

std::string to_rfc3339(Instant at) {
  if (at.time_since_epoch().count() % 1'000'000 == 0)
    return date::format("%FT%TZ", std::chrono::floor<Seconds>(at));
  return date::format("%FT%TZ", at);
}

Result<Instant> parse_rfc3339(std::string_view text) {
  std::istringstream in{std::string(text)};
  Instant at;
  in >> date::parse("%FT%TZ", at);
  if (in.fail() || in.peek() != std::istringstream::traits_type::eof())
    return fail(Code::kInvalid, "FieldValueInvalid",
                "\"" + std::string(text) + "\" is not a UTC instant such as 2026-01-02T03:04:05Z.");
  return at;
}

}  // namespace nodus
