#include "services/scheduler/app/expiry.hpp"

#include "libs/telemetry/log.hpp"

namespace nodus::scheduler {
namespace {

constexpr int kBatch = 256;
constexpr Millis kPoll{500};

}  // namespace

Millis Expiry::step() {
  auto due = rows_.due_offers(clock_.now(), kBatch);
  if (!due) {
    log::warn("expiry_failed", {{"error", due.error().message}});
    return kPoll;
  }
  if (due->empty()) {
    auto next = rows_.next_due();
    if (!next || !*next) return kPoll;
    const auto left = std::chrono::ceil<Millis>(**next - clock_.now());
    return std::clamp(left, Millis(5), kPoll);
  }
  std::vector<eventlog::Work> works;
  for (const auto& offer : *due) {
    auto work = slots_.work(offer.sandbox, Expire{offer.start});
    if (work) works.push_back(std::move(*work));
  }
  size_t failed = 0;
  for (const auto& result : log_.run(works)) {
    if (result) continue;
    ++failed;
    log::warn("expiry_failed", {{"error", result.error().message}});
  }
  return failed == 0 && due->size() == kBatch ? Millis(1) : kPoll;
}

}  // namespace nodus::scheduler
