#include "services/scheduler/app/placer.hpp"

#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::scheduler {
namespace {

constexpr int kScan = 512;  // of each organization; all that wait are bounded by SlotsOptions
constexpr Millis kIdle{1'000};

}  // namespace

Millis Placer::step() {
  static auto waiting_gauge =
      metrics::gauge("nodus_scheduler_waiting_starts", "Funded starts for which no machine has room");
  auto waiting = rows_.waiting(kScan);
  auto count = rows_.waiting_count();
  if (!waiting || !count) {
    log::warn("placer_failed", {{"error", waiting ? count.error().message : waiting.error().message}});
    return kIdle;
  }
  waiting_gauge.set(static_cast<double>(*count));
  slots_.waiting_count(*count);
  std::vector<eventlog::Work> works;
  for (const auto& start : *waiting) {
    auto plan = slots_.plan(start.org, start.shape, start.whole);
    if (plan.fitting == 0) continue;
    works.push_back(slots_.place(start.sandbox, start.start, std::move(plan.machines)));
  }
  if (works.empty()) return kIdle;
  for (const auto& result : log_.run(works))
    if (!result) log::warn("placement_failed", {{"error", result.error().message}});
  return kIdle;
}

}  // namespace nodus::scheduler
