// Every cell of phase × want, one line a case.
#include <gtest/gtest.h>

#include "services/executor/domain/plan.hpp"

namespace nodus::executor {
namespace {

const Instant kUsed = from_micros(1'000'000);

Order stop_order(StopReason reason, std::optional<Instant> idle_since = {}) {
  return Order{.stop = true, .stop_reason = reason, .idle_since = idle_since};
}

Look look(Phase phase, bool alive = true, bool opened = true) {
  return {phase, alive, opened, {}};
}

struct Case {
  const char* name;
  std::optional<Look> slot;
  Want want;
  Step step;
};

TEST(Plan, EveryPhaseAndWant) {
  const Look starting = look(Phase::kStarting, false, false);
  const Look started = look(Phase::kStarting, true, false);
  const Look running = look(Phase::kRunning);
  const Look found = look(Phase::kRunning, true, false);
  const Look dead = look(Phase::kRunning, false, true);
  const Look declined = look(Phase::kDeclined);
  const Look stopping = look(Phase::kStopping, false, false);
  const Look stopped = look(Phase::kStopped, false, false);
  const Look failed = look(Phase::kFailed, false, false);
  const Case cases[] = {
      {"nothing, nothing", {}, Want::kUnknown, Step::kNone},
      {"nothing, run", {}, Want::kRun, Step::kStart},
      {"nothing, stop", {}, Want::kStop, Step::kConclude},
      {"nothing, absent", {}, Want::kAbsent, Step::kNone},
      {"starting, unknown", starting, Want::kUnknown, Step::kNone},
      {"starting, run", starting, Want::kRun, Step::kStart},
      {"starting, stop", starting, Want::kStop, Step::kStop},
      {"starting, absent", starting, Want::kAbsent, Step::kDestroy},
      {"started but not recorded, unknown", started, Want::kUnknown, Step::kNone},
      {"started but not recorded, run", started, Want::kRun, Step::kAdopt},
      {"started but not recorded, stop", started, Want::kStop, Step::kStop},
      {"started but not recorded, absent", started, Want::kAbsent, Step::kDestroy},
      {"running, unknown", running, Want::kUnknown, Step::kNone},
      {"running, run", running, Want::kRun, Step::kNone},
      {"running, stop", running, Want::kStop, Step::kStop},
      {"running, absent", running, Want::kAbsent, Step::kDestroy},
      {"found after a restart, unknown", found, Want::kUnknown, Step::kAdopt},
      {"found after a restart, run", found, Want::kRun, Step::kAdopt},
      {"found after a restart, stop", found, Want::kStop, Step::kAdopt},
      {"found after a restart, absent", found, Want::kAbsent, Step::kDestroy},
      {"dead, unknown", dead, Want::kUnknown, Step::kStop},
      {"dead, run", dead, Want::kRun, Step::kStop},
      {"dead, stop", dead, Want::kStop, Step::kStop},
      {"dead, absent", dead, Want::kAbsent, Step::kDestroy},
      {"declined, unknown", declined, Want::kUnknown, Step::kNone},
      {"declined, run", declined, Want::kRun, Step::kResume},
      {"declined, stop", declined, Want::kStop, Step::kStop},
      {"declined, absent", declined, Want::kAbsent, Step::kDestroy},
      {"stopping, unknown", stopping, Want::kUnknown, Step::kStop},
      {"stopping, run", stopping, Want::kRun, Step::kStop},
      {"stopping, stop", stopping, Want::kStop, Step::kStop},
      {"stopping, absent", stopping, Want::kAbsent, Step::kDestroy},
      {"stopped, unknown", stopped, Want::kUnknown, Step::kNone},
      {"stopped, run", stopped, Want::kRun, Step::kNone},
      {"stopped, stop", stopped, Want::kStop, Step::kNone},
      {"stopped, absent", stopped, Want::kAbsent, Step::kForget},
      {"failed, unknown", failed, Want::kUnknown, Step::kNone},
      {"failed, run", failed, Want::kRun, Step::kNone},
      {"failed, stop", failed, Want::kStop, Step::kNone},
      {"failed, absent", failed, Want::kAbsent, Step::kForget},
  };
  for (const auto& c : cases) {
    std::optional<Order> order;
    if (c.want == Want::kRun) order = Order{};
    if (c.want == Want::kStop) order = stop_order(StopReason::kOther);
    EXPECT_EQ(static_cast<int>(next_step(c.slot, c.want, order)), static_cast<int>(c.step)) << c.name;
  }
}

TEST(Plan, ADeclinedStopIsNotAskedAgainButAnotherIs) {
  const auto idle = stop_order(StopReason::kIdle, kUsed);
  Look declined = look(Phase::kDeclined);
  declined.declined = idle;
  const struct {
    const char* name;
    Order order;
    Step step;
  } cases[] = {
      {"the same", idle, Step::kNone},
      {"idle since later", stop_order(StopReason::kIdle, kUsed + Micros(1)), Step::kStop},
      {"of a person", stop_order(StopReason::kOther), Step::kStop},
      {"deleted", stop_order(StopReason::kDelete), Step::kStop},
  };
  for (const auto& c : cases)
    EXPECT_EQ(static_cast<int>(next_step(declined, Want::kStop, c.order)), static_cast<int>(c.step))
        << c.name;
}

TEST(Plan, IdleMeansNothingRunsAndNothingUsedItSince) {
  EXPECT_TRUE(idle_holds({kUsed, false}, kUsed));
  EXPECT_TRUE(idle_holds({kUsed, false}, std::nullopt));
  EXPECT_FALSE(idle_holds({kUsed, false}, kUsed - Micros(1)));
  EXPECT_FALSE(idle_holds({kUsed, true}, kUsed));
  EXPECT_FALSE(idle_holds({kUsed, true}, std::nullopt));
}

}  // namespace
}  // namespace nodus::executor
