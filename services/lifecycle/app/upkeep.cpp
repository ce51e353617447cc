#include "services/lifecycle/app/upkeep.hpp"

#include "libs/eventlog/postgres_log.hpp"
#include "libs/telemetry/log.hpp"

namespace nodus::lifecycle {

Upkeep::Upkeep(pg::Pool& pool, const Clock& clock, UpkeepOptions options)
    : pool_(pool), clock_(clock), options_(options), loop_([this] { return step(); }) {
  loop_.start();
}

Upkeep::~Upkeep() {
  loop_.stop();
}

Millis Upkeep::step() {
  if (clock_.boot() - ranges_made_ > std::chrono::hours(1)) {
    auto made = eventlog::ensure_ranges(pool_);
    if (made) ranges_made_ = clock_.boot();
    if (!made) log::warn("ranges.failed", {{"reason", made.error().reason}});
  }
  return options_.poll;
}

}  // namespace nodus::lifecycle
