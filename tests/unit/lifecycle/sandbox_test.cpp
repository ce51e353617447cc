#include <functional>

#include "tests/unit/lifecycle/sandbox_fixture.hpp"

namespace nodus::lifecycle::test {
namespace {

const std::map<std::string, std::function<Given()>> kStates = {
    {"None", none},
    {"Pending", pending},
    {"Starting", starting},
    {"Running", running},
    {"Stopped", stopped},
    {"Failed", failed},
    {"Terminating", terminating},
    {"Deleted", deleted},
    {"Refused", refused},
    {"Recovering", recovering},
    {"Deferred", deferred},
    {"Stopping", [] { return stopping(); }},
    {"IdleStopping", [] { return stopping(StopReason::kIdle); }},
};

TEST(Sandbox, WokenWhileStoppingStartsAgainWhenStopped) {
  auto given = stopping().run(TriggerStart{Trigger::kCommand});
  given.run(RecordRelease{release()});
  EXPECT_EQ(given.state.phase, Phase::kPending);
  EXPECT_EQ(given.state.start, 2);
  EXPECT_TRUE(given.state.wants_running);
}

TEST(Sandbox, StoppedByAPersonAfterAWakeStaysStopped) {
  auto given = stopping().run(TriggerStart{Trigger::kCommand}).run(RequestStop{StopReason::kUser, {}});
  given.run(RecordRelease{release()});
  EXPECT_EQ(given.state.phase, Phase::kStopped);
  EXPECT_FALSE(given.state.wants_running);
}

TEST(Sandbox, RefusalStandsUntilTheFundsChange) {
  const auto given = refused();
  EXPECT_EQ(given.state.phase, Phase::kStopped);
  EXPECT_EQ(given.state.stop_reason, StopReason::kInsufficientCredits);
  const auto refusal = given.when(TriggerStart{Trigger::kCommand});
  ASSERT_FALSE(refusal.has_value());
  EXPECT_EQ(refusal.error().code, Code::kPaymentRequired);
  EXPECT_NE(refusal.error().message.find("0.000437500000"), std::string::npos);
  EXPECT_NE(refusal.error().message.find("0.000100000000"), std::string::npos);
  EXPECT_FALSE(given.when(TriggerStart{Trigger::kCommand}, 100, at_s(0)).has_value()) << "changed before it";
  EXPECT_TRUE(given.when(TriggerStart{Trigger::kCommand}, 100, at_s(3)).has_value()) << "changed after it";
}

TEST(Sandbox, ARefusalThatComesAfterItsLapseStillStands) {
  auto given = pending().run(RecordLapse{1, "Refused", StopReason::kNone}, 2);
  given.run(RecordFunding{{1, std::nullopt, broke(), at_s(1)}}, 3);
  EXPECT_EQ(given.state.stop_reason, StopReason::kInsufficientCredits);
  EXPECT_EQ(given.when(TriggerStart{Trigger::kCommand}).error().reason, "InsufficientCredits");
}

TEST(Sandbox, EveryOtherStopOvertakesAnIdleStop) {
  for (const StopReason reason :
       {StopReason::kUser, StopReason::kInsufficientCredits, StopReason::kMaxCostReached}) {
    auto given = running().run(CheckIdle{}, 305).run(RequestStop{reason, {}}, 306);
    EXPECT_EQ(given.state.stop_reason, reason);
    EXPECT_TRUE(given.when(RecordStopDeclined{{1, at_s(304)}})->empty())
        << "the decline was of the idle stop";
    EXPECT_EQ(given.state.phase, Phase::kStopping);
  }
  EXPECT_TRUE(stopping().when(RequestStop{StopReason::kMaxCostReached, 1})->empty())
      << "a user's stop is not declined";
}

TEST(Sandbox, AStartThatFoundNoMachineIsAskedForAgainLaterAndLater) {
  auto given = pending();
  Micros before{0};
  for (int attempt = 1; attempt <= 10; ++attempt) {
    const int64_t now_s = 1000 * attempt;
    given.run(RecordLapse{attempt, "NoCapacity", StopReason::kNone}, now_s);
    ASSERT_TRUE(given.state.deferred_until.has_value());
    EXPECT_EQ(given.state.phase, Phase::kPending);
    const Micros wait = *given.state.deferred_until - at_s(now_s);
    EXPECT_GE(wait, before);
    EXPECT_LE(wait, Seconds(75));
    before = std::min<Micros>(wait, Seconds(40));
    EXPECT_EQ(deadlines_of(given.state).back(), (Deadline{"retry", *given.state.deferred_until}));
    EXPECT_TRUE(given.when(CheckRetry{}, now_s)->empty()) << "early";
    given.run(CheckRetry{}, now_s + 100);
    EXPECT_EQ(given.state.start, attempt + 1);
  }
  given.run(RecordLapse{11, "Expired", StopReason::kNone}, 20'000);
  auto stopped_by_user = given;
  stopped_by_user.run(RequestStop{StopReason::kUser, {}}, 20'000);
  EXPECT_EQ(stopped_by_user.state.phase, Phase::kStopped);
  EXPECT_TRUE(stopped_by_user.when(CheckRetry{}, 30'000)->empty());
  given.run(DeleteSandbox{}, 20'000);
  EXPECT_EQ(given.state.phase, Phase::kDeleted);
}

TEST(Sandbox, RaisedCapLiftsItsOwnRefusalOnly) {
  Refusal cap = broke();
  cap.reason = "BudgetExceeded";
  cap.limit = "maxCostUSD";
  auto given =
      pending().run(RecordFunding{{1, std::nullopt, cap, at_s(1)}}).run(RecordLapse{1, "Refused", {}});
  EXPECT_EQ(given.state.stop_reason, StopReason::kMaxCostReached);
  EXPECT_FALSE(given.when(TriggerStart{Trigger::kStart}, 100, at_s(50)).has_value())
      << "credits do not lift a cap";
  given.run(RaiseMaxCost{*Money::parse("2.00")});
  EXPECT_EQ(given.state.phase, Phase::kStopped) << "raising wakes nothing";
  EXPECT_TRUE(given.when(TriggerStart{Trigger::kStart}).has_value());
}

TEST(Sandbox, IdleIsNeverEarlyAndReArmsWhenDeclined) {
  const auto given = running();
  EXPECT_TRUE(given.when(CheckIdle{}, 5 + 299)->empty());
  const auto events = given.when(CheckIdle{}, 5 + 300);
  ASSERT_EQ(events->size(), 1u);
  const auto& stop = std::get<StopRequested>(events->front());
  EXPECT_EQ(stop.reason, StopReason::kIdle);
  EXPECT_EQ(*stop.idle_since, at_s(5));
  auto declined = running().run(CheckIdle{}, 305).run(RecordStopDeclined{{1, at_s(200)}}, 306);
  EXPECT_EQ(declined.state.phase, Phase::kRunning);
  EXPECT_EQ(declined.state.stop_reason, StopReason::kNone);
  EXPECT_EQ(deadlines_of(declined.state).back(), (Deadline{"idle", at_s(500)}));
}

TEST(Sandbox, OnIdleDeleteRemovesItAfterTheStop) {
  auto created = hello();
  created.spec.on_idle = OnIdle::kDelete;
  auto given = Given().run(CreateSandbox{created, true}, 0).run(RecordSlot{{1, 1, "m", "h:1", at_s(2)}});
  given.run(RecordRunning{{1, "runsc", at_s(5)}}).run(CheckIdle{}, 305);
  given.run(RecordRelease{release(StopReason::kIdle)}, 306);
  EXPECT_EQ(given.state.phase, Phase::kDeleted);
}

TEST(Sandbox, MaxLifetimeDeletesFromAnyState) {
  for (const auto& [name, make] : kStates) {
    auto given = make();
    if (name == "None" || name == "Deleted" || name == "Terminating") continue;
    EXPECT_TRUE(given.when(CheckLifetime{}, 7199)->empty()) << name;
    given.run(CheckLifetime{}, 7200);
    const bool slot = given.state.start_open;
    EXPECT_EQ(given.state.phase, slot ? Phase::kTerminating : Phase::kDeleted) << name;
  }
}

TEST(Sandbox, ALostMachineMeansAnotherStartFromTheLastRestorePoint) {
  auto given = recovering();
  EXPECT_EQ(given.state.phase, Phase::kRecovering);
  EXPECT_EQ(given.state.start, 2);
  EXPECT_TRUE(given.state.start_open);
  EXPECT_EQ(given.state.lost_epoch, 1);
  EXPECT_EQ(given.state.restore_point, point());
  EXPECT_TRUE(given.when(TriggerStart{Trigger::kCommand})->empty()) << "it is on its way: 503";
  auto waiting = given;
  waiting.run(RecordLapse{2, "NoCapacity", StopReason::kNone}, 60).run(CheckRetry{}, 400);
  EXPECT_EQ(waiting.state.phase, Phase::kRecovering) << "however long no machine is found";
  given.run(RecordFunding{{2, kRate, {}, at_s(61)}}).run(RecordSlot{{2, 2, "machine-2", "h:1", at_s(62)}});
  EXPECT_EQ(given.state.phase, Phase::kRecovering);
  given.run(RecordRunning{{2, "runsc", at_s(65)}});
  EXPECT_EQ(given.state.phase, Phase::kRunning);
  EXPECT_TRUE(given.state.message.empty());
  auto refusal = recovering().run(RecordFunding{{2, std::nullopt, broke(), at_s(61)}});
  refusal.run(RecordLapse{2, "Refused", StopReason::kNone});
  EXPECT_EQ(refusal.state.phase, Phase::kStopped);
  EXPECT_EQ(refusal.state.stop_reason, StopReason::kInsufficientCredits);
}

TEST(Sandbox, AnEphemeralOneFailsWithItsMachine) {
  auto created = hello();
  created.spec.continuity = Continuity::kEphemeral;
  auto given = Given().run(CreateSandbox{created, true}, 0).run(RecordSlot{{1, 1, "m", "h:1", at_s(2)}});
  given.run(RecordRelease{release(StopReason::kNone, std::string(kNodeLost))}, 52);
  EXPECT_EQ(given.state.phase, Phase::kFailed);
  EXPECT_EQ(given.state.failure, kNodeLost);
  EXPECT_EQ(given.when(TriggerStart{Trigger::kFile}).error().reason, "SandboxFailed");
  given.run(TriggerStart{Trigger::kStart});
  EXPECT_EQ(given.state.phase, Phase::kPending) << "an explicit start tries again";
}

TEST(Sandbox, APersonsStopSetsSpecStateAlsoWhereNothingCanBeStopped) {
  auto idle = stopping(StopReason::kIdle).run(RecordRelease{release(StopReason::kIdle)}, 52);
  EXPECT_TRUE(idle.state.wants_running) << "stopped by the platform";
  idle.run(RequestStop{StopReason::kUser, {}});
  EXPECT_FALSE(idle.state.wants_running);
  EXPECT_EQ(idle.state.stop_reason, StopReason::kIdle) << "why it stopped does not change";
  idle.run(TriggerStart{Trigger::kCommand});
  EXPECT_TRUE(idle.state.wants_running) << "a command wakes what a user stopped";
  auto broken = failed().run(RequestStop{StopReason::kUser, {}});
  EXPECT_FALSE(broken.state.wants_running);
  EXPECT_EQ(broken.state.phase, Phase::kFailed);
}

TEST(Sandbox, AWakeThatMeetsARefusedStartOfOldFundsIsNotLost) {
  auto given = pending().run(RecordFunding{{1, std::nullopt, broke(), at_s(1)}}, 1);
  EXPECT_EQ(given.when(TriggerStart{Trigger::kStart}, 2).error().reason, "InsufficientCredits");
  given.run(TriggerStart{Trigger::kCreate}, 3, at_s(3));  // credits came meanwhile
  given.run(RecordLapse{1, "Refused", StopReason::kNone}, 4);
  EXPECT_EQ(given.state.phase, Phase::kPending);
  EXPECT_EQ(given.state.start, 2);
}

TEST(Sandbox, AMoneyStopOutlivesAnOfferThatExpires) {
  auto given = pending().run(RequestStop{StopReason::kInsufficientCredits, 1}, 10);
  given.run(RecordLapse{1, "Expired", StopReason::kNone}, 11);
  EXPECT_EQ(given.state.phase, Phase::kStopped);
  EXPECT_EQ(given.state.stop_reason, StopReason::kInsufficientCredits);
}

TEST(Sandbox, ACapIsOnlyRaised) {
  const auto given = running();
  EXPECT_TRUE(given.when(RaiseMaxCost{*Money::parse("1")})->empty());
  EXPECT_EQ(given.when(RaiseMaxCost{*Money::parse("0.99")}).error().causes.front().field, "spec.maxCostUSD");
  EXPECT_EQ(given.when(RaiseMaxCost{*Money::parse("1.01")})->size(), 1u);
}

TEST(Sandbox, WhatItsMachineSaysOfActivityIsShownAndNeverBringsAStopForward) {
  auto given = running();
  const auto noted = [&](bool busy, int64_t last_s, int64_t epoch = 1, std::string machine = "machine-1") {
    return RecordActivity{std::move(machine),
                          {epoch, busy, busy ? "process 42 (node)" : "", at_s(last_s), {}}};
  };
  EXPECT_EQ(given.when(noted(true, 60, 2)).error().reason, "StaleEpoch");
  EXPECT_EQ(given.when(noted(true, 60, 1, "machine-2")).error().reason, "NotFound");
  given.run(noted(true, 60), 61);
  EXPECT_TRUE(given.state.machine_busy);
  EXPECT_EQ(given.state.awake_because, "process 42 (node)");
  EXPECT_EQ(deadlines_of(given.state).back(), (Deadline{"idle", at_s(360)}));
  given.run(noted(false, 30), 62);
  EXPECT_FALSE(given.state.machine_busy);
  EXPECT_EQ(deadlines_of(given.state).back(), (Deadline{"idle", at_s(360)})) << "older than what is known";
  EXPECT_TRUE(given.when(noted(false, 30), 63)->empty()) << "no news";
  given.run(noted(false, 9'999), 64);
  EXPECT_EQ(deadlines_of(given.state).back(), (Deadline{"idle", at_s(364)})) << "not later than now";
  given.run(noted(true, 64), 65)
      .run(RequestStop{StopReason::kUser, {}}, 66)
      .run(RecordRelease{release()}, 67);
  EXPECT_FALSE(given.state.machine_busy);
}

TEST(Sandbox, CostIsPostedPlusTheFrozenRate) {
  auto given = running();
  EXPECT_EQ(cost_at(given.state, at_s(2)), Money());
  EXPECT_EQ(cost_at(given.state, at_s(2 + 720)), kRate * 720);
  EXPECT_EQ(cost_at(given.state, at_s(2) + Micros(1)), kRate * 1) << "a second begun is a second";
  given.run(RequestStop{StopReason::kUser, {}}).run(RecordRelease{release()});
  EXPECT_EQ(cost_at(given.state, at_s(9999)), kRate * 50) << "until the charge is posted";
  given.run(RecordCharge{{1, kRate * 50}});
  EXPECT_EQ(cost_at(given.state, at_s(9999)), kRate * 50);
  auto capped = running().run(RecordPaidUntil{{1, money_second(at_s(2)) + 30}});
  EXPECT_EQ(cost_at(capped.state, at_s(2 + 720)), kRate * 30) << "seconds that are not charged cost nothing";
  capped.run(RequestStop{StopReason::kMaxCostReached, 1}).run(RecordRelease{release()});
  EXPECT_EQ(cost_at(capped.state, at_s(9999)), kRate * 30);
  auto early = running().run(RecordCharge{{1, kRate * 50}});
  EXPECT_EQ(cost_at(early.state, at_s(9999)), kRate * 50) << "posted before the release was heard of";
  early.run(RecordRelease{release()});
  EXPECT_EQ(cost_at(early.state, at_s(9999)), kRate * 50);
}

}  // namespace
}  // namespace nodus::lifecycle::test
