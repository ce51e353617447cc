// Random command sequences on the pure core: what must hold whatever happens, in any order, any number of
// times.
#include <random>
#include <set>

#include "tests/unit/lifecycle/sandbox_fixture.hpp"

namespace nodus::lifecycle::test {
namespace {

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  void step() {
    now_s_ += pick(40);
    const auto command = any_command();
    const auto before = given_.state;
    const auto events =
        given_.when(command, now_s_, pick(4) == 0 ? std::optional(at_s(now_s_)) : std::nullopt);
    if (!events) return;
    for (const auto& event : *events) {
      observe(event);
      given_.event(event);
      invariants(before);
    }
  }
  const Sandbox& state() const { return given_.state; }

 private:
  int64_t pick(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  int64_t some_start() { return std::max<int64_t>(1, given_.state.start - pick(2)); }

  SandboxCommand any_command() {
    const int64_t start = some_start();
    switch (pick(17)) {
      case 16:
        return CheckRetry{};
      case 0:
        return CreateSandbox{hello(), pick(2) == 0};
      case 1:
        return TriggerStart{static_cast<Trigger>(pick(4))};
      case 2:
        return RequestStop{StopReason::kUser, {}};
      case 3:
        return RequestStop{StopReason::kMaxCostReached, start};
      case 4:
        return pick(10) == 0 ? SandboxCommand(DeleteSandbox{}) : SandboxCommand(NumberProcess{});
      case 5:
        return CheckIdle{};
      case 6:
        return CheckLifetime{};
      case 7:
        return RecordFunding{{start, kRate, {}, at_s(now_s_)}};
      case 8:
        return RecordFunding{{start, std::nullopt, broke(), at_s(now_s_)}};
      case 9:
      case 10:
        return RecordSlot{{start, given_.state.epoch + pick(2), "m", "h:1", at_s(now_s_)}};
      case 11:
        return RecordRunning{{start, "runsc", at_s(now_s_)}};
      case 12:
        return RecordStopDeclined{{start, at_s(now_s_)}};
      case 13:
        return RecordLapse{start, pick(2) == 0 ? "Expired" : "Refused", StopReason::kNone};
      case 14: {
        auto r = release(StopReason::kUser, pick(3) == 0 ? "Crashed" : "");
        r.start = start;
        r.at = at_s(now_s_);
        return RecordRelease{r};
      }
      default:
        return RecordCharge{{start, kRate * pick(100)}};
    }
  }

  void observe(const SandboxEvent& event) {
    if (const auto* start = std::get_if<StartRequested>(&event)) {
      EXPECT_FALSE(given_.state.start_open) << "a start began while another was under way";
      EXPECT_EQ(start->start, given_.state.start + 1);
    }
    if (const auto* stop = std::get_if<StopRequested>(&event)) {
      EXPECT_TRUE(given_.state.start_open);
      EXPECT_EQ(stop->start, given_.state.start);
      if (stop->reason == StopReason::kIdle) {
        EXPECT_LE(given_.state.last_activity + given_.state.spec.idle_timeout, at_s(now_s_))
            << "an early idle stop";
      }
    }
    if (std::holds_alternative<ReleaseRecorded>(event) && !given_.state.deferred_until) {
      EXPECT_TRUE(released_.insert(given_.state.start).second) << "a start ended twice";
    }
  }

  void invariants(const Sandbox& before) {
    const Sandbox& s = given_.state;
    const bool alive =
        s.phase == Phase::kStarting || s.phase == Phase::kRunning || s.phase == Phase::kPending;
    EXPECT_TRUE(!alive || s.start_open || s.deferred_until);
    EXPECT_TRUE(s.phase != Phase::kDeleted || !s.start_open) << "deleted under a start";
    EXPECT_TRUE(before.phase != Phase::kDeleted || s.phase == Phase::kDeleted) << "came back from deletion";
    EXPECT_GE(s.epoch, before.epoch);
    EXPECT_GE(s.processes, before.processes);
    EXPECT_TRUE(!before.restore_point || s.restore_point) << "a restore point was lost";
    for (const auto& deadline : deadlines_of(s)) {
      EXPECT_TRUE(deadline.kind != "lifetime" || deadline.due == s.created_at + s.spec.max_lifetime);
    }
  }

  std::mt19937_64 random_;
  Given given_;
  int64_t now_s_ = 0;
  std::set<int64_t> released_;
};

TEST(SandboxProperty, HoldsOverRandomHistories) {
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    for (int i = 0; i < 60; ++i) world.step();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace nodus::lifecycle::test
