#include "services/executor/domain/plan.hpp"

namespace nodus::executor {

bool idle_holds(const Activity& activity, const std::optional<Instant>& idle_since) {
  return !activity.busy && (!idle_since || activity.last <= *idle_since);
}

static Step running_step(const Look& slot, Want want, const std::optional<Order>& order) {
  if (want == Want::kAbsent) return Step::kDestroy;
  if (!slot.container_alive) return Step::kStop;  // it crashed: save what is there, report Failed
  if (!slot.opened) return Step::kAdopt;
  const bool declined = slot.phase == Phase::kDeclined;
  if (want == Want::kStop) return declined && slot.declined == order ? Step::kNone : Step::kStop;
  if (want == Want::kRun && declined) return Step::kResume;
  return Step::kNone;
}

static Step starting_step(const Look& slot, Want want) {
  switch (want) {
    case Want::kAbsent:
      return Step::kDestroy;
    case Want::kStop:
      return Step::kStop;
    case Want::kRun:
      // The start was finished and only its record is missing, or it is done again from nothing.
      return slot.container_alive ? Step::kAdopt : Step::kStart;
    case Want::kUnknown:
      return Step::kNone;  // the order may have been taken back while nodusd was away
  }
  return Step::kNone;
}

Step next_step(const std::optional<Look>& slot, Want want, const std::optional<Order>& order) {
  if (!slot) {
    if (want == Want::kRun) return Step::kStart;
    if (want == Want::kStop) return Step::kConclude;
    return Step::kNone;
  }
  switch (slot->phase) {
    case Phase::kStarting:
      return starting_step(*slot, want);
    case Phase::kRunning:
    case Phase::kDeclined:
      return running_step(*slot, want, order);
    case Phase::kStopping:
      return want == Want::kAbsent ? Step::kDestroy : Step::kStop;  // a stop once begun is finished
    case Phase::kStopped:
    case Phase::kFailed:
      return want == Want::kAbsent ? Step::kForget : Step::kNone;
  }
  return Step::kNone;
}

}  // namespace nodus::executor
