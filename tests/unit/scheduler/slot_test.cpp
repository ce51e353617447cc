#include "services/scheduler/domain/slot.hpp"

#include <gtest/gtest.h>

#include "tests/unit/scheduler/given.hpp"

namespace nodus::scheduler::test {
namespace {

template <class E>
const E& only(const Result<std::vector<SlotEvent>>& outcome) {
  EXPECT_TRUE(outcome && outcome->size() == 1);
  return std::get<E>(outcome->at(0));
}

Driver running() {
  Driver d;
  d.given(PlanStart{order(1)}).given(Fund{1}, true);
  return d.given(d.report(NodeSays::kRunning));
}

TEST(Slot, TheWholePathOfAStartRepeatsAllInstantsKnown) {
  Driver d = running();
  d.given(Stop{1, StopReason::kUser, {}});
  Report stopped = d.report(NodeSays::kStopped);
  stopped.restore_point = restore_point();
  const auto outcome = d.when(stopped);
  const auto& released = only<Released>(outcome);
  EXPECT_EQ(released.slot, (SlotRef{SandboxUid("u1"), 1, 1, OrgId("acme"), ProjectId("web")}));
  EXPECT_EQ(released.times.reserved_at, kT0 + Seconds(1));
  EXPECT_EQ(released.times.started_at, kT0 + Seconds(2));
  EXPECT_EQ(released.times.stopping_at, kT0 + Seconds(3));
  EXPECT_EQ(released.times.released_at, kT0 + Seconds(4));
  EXPECT_EQ(released.restore_point, restore_point());
}

TEST(Slot, InstantsNeverDecreaseWhenTheClockStepsBack) {
  Driver d = running();
  d.now = kT0 - Seconds(100);
  const auto stopping = only<Stopping>(d.when(Stop{1, StopReason::kUser, {}}));
  EXPECT_EQ(stopping.times.stopping_at, stopping.times.started_at);
  d.now = kT0 - Seconds(200);
  const auto released = only<Released>(d.when(d.report(NodeSays::kStopped)));
  EXPECT_EQ(released.times.released_at, stopping.times.stopping_at);
  d.given(PlanStart{order(2)});
  const auto reserved = only<Reserved>(d.when(Fund{2}, true));
  EXPECT_GE(reserved.times.reserved_at, released.times.released_at);
}

TEST(Slot, EpochsGrowByOneWithEachReservationOnly) {
  Driver d = running();
  d.given(Stop{1, StopReason::kUser, {}}).given(d.report(NodeSays::kStopped));
  d.given(PlanStart{order(2)}).given(Refuse{2});
  d.given(PlanStart{order(3)});
  EXPECT_EQ(only<Reserved>(d.when(Fund{3}, true)).slot.epoch, 2);
}

TEST(Slot, DeleteSavesNothing) {
  Driver d = running();
  d.given(Stop{1, StopReason::kUser, {}}).given(Delete{});
  Report stopped = d.report(NodeSays::kStopped);
  stopped.restore_point = restore_point();
  EXPECT_FALSE(only<Released>(d.when(stopped)).restore_point);
}

TEST(Slot, AnOvertakingStopKeepsTheFirstInstant) {
  Driver d = running();
  const auto first = only<Stopping>(d.when(Stop{1, StopReason::kIdle, kT0}));
  EXPECT_EQ(first.idle_since, kT0);
  const auto second = only<Stopping>(d.when(Stop{1, StopReason::kUser, kT0}));
  EXPECT_EQ(second.times, first.times);
  EXPECT_EQ(second.idle_since, kNever);
}

TEST(Slot, ADeclinedStopGoesBackToWhereItWas) {
  Driver d = running();
  d.given(Stop{1, StopReason::kIdle, kT0});
  Report declined = d.report(NodeSays::kDeclined);
  declined.last_activity = kT0 + Seconds(5);
  EXPECT_EQ(only<Declined>(d.when(declined)).last_activity, kT0 + Seconds(5));
  EXPECT_EQ(d.state.phase, Phase::kStarted);
  EXPECT_EQ(d.state.times.stopping_at, kNever);
  EXPECT_EQ(d.state.stop_reason, StopReason::kNone);
}

TEST(Slot, FailuresKeepTheNodesWordsWithinALimit) {
  Driver d = running();
  Report failed = d.report(NodeSays::kFailed);
  failed.failure = "rm -rf";
  failed.message = std::string(5000, 'x');
  const auto released = only<Released>(d.when(failed));
  EXPECT_EQ(released.failure, "Crashed");
  EXPECT_EQ(released.message.size(), 1024u);
}

TEST(Slot, TheOfferCarriesWhatMeteringNeeds) {
  Driver d;
  Order o = order(1);
  o.max_cost_usd = "1.00";
  o.spent_usd = "0.25";
  const auto outcome = d.when(PlanStart{o});
  ASSERT_EQ(outcome->size(), 2u);
  const auto& offered = std::get<Offered>(outcome->at(1));
  EXPECT_EQ(offered.max_cost_usd, "1.00");
  EXPECT_EQ(offered.spent_usd, "0.25");
  EXPECT_EQ(offered.sharing, "Shared");
  EXPECT_EQ(offered.expires_at, kT0 + kTtl);
  EXPECT_EQ(offered.slot.epoch, 0);
}

TEST(Slot, StandingOfReports) {
  Driver d = running();
  EXPECT_EQ(standing(d.state, kMachine, 1), Standing::kCurrent);
  EXPECT_EQ(standing(d.state, MachineId("m2"), 1), Standing::kOtherMachine);
  EXPECT_EQ(standing(d.state, kMachine, 2), Standing::kUnknown);
  EXPECT_EQ(standing(SlotState{}, kMachine, 1), Standing::kUnknown);
  d.given(d.report(NodeSays::kFailed));
  EXPECT_EQ(standing(d.state, kMachine, 1), Standing::kPast);
  d.given(PlanStart{order(2)}).given(Fund{2}, true);
  EXPECT_EQ(standing(d.state, kMachine, 1), Standing::kOtherEpoch);
}

}  // namespace
}  // namespace nodus::scheduler::test
