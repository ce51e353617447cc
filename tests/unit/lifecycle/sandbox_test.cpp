#include <functional>

#include "tests/unit/lifecycle/sandbox_fixture.hpp"

namespace nodus::lifecycle::test {
namespace {

// One row of the table state × message: what a message does to a Sandbox in a phase.
struct Cell {
  std::string state;
  std::string message;
  std::string outcome;  // the phase after it, "=" for no events, or the reason of the rejection
};

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
    {"Stopping", [] { return stopping(); }},
    {"IdleStopping", [] { return stopping(StopReason::kIdle); }},
};

const std::map<std::string, SandboxCommand> kMessages = {
    {"Create", CreateSandbox{hello(), true}},
    {"TriggerCreate", TriggerStart{Trigger::kCreate}},
    {"TriggerStart", TriggerStart{Trigger::kStart}},
    {"TriggerCommand", TriggerStart{Trigger::kCommand}},
    {"Stop", RequestStop{StopReason::kUser, {}}},
    {"MoneyStop", RequestStop{StopReason::kInsufficientCredits, 1}},
    {"Delete", DeleteSandbox{}},
    {"Number", NumberProcess{}},
    {"Funded", RecordFunding{{1, kRate, {}, at_s(1)}}},
    {"Slot", RecordSlot{{1, 1, "machine-1", "127.0.0.1:7410", at_s(2)}}},
    {"Started", RecordRunning{{1, "runsc", at_s(5)}}},
    {"Declined", RecordStopDeclined{{1, at_s(49)}}},
    {"Lapse", RecordLapse{1, "Stopped", StopReason::kUser}},
    {"Expired", RecordLapse{1, "Expired", StopReason::kNone}},
    {"Release", RecordRelease{release()}},
    {"Crash", RecordRelease{release(StopReason::kNone, "Crashed")}},
};

const std::vector<Cell> kTable = {
    {"None", "Create", "Pending"},
    {"None", "TriggerStart", "NotFound"},
    {"None", "Stop", "NotFound"},
    {"None", "MoneyStop", "="},
    {"None", "Delete", "NotFound"},
    {"None", "Number", "NotFound"},
    {"None", "Funded", "="},
    {"None", "Slot", "="},
    {"None", "Started", "="},
    {"None", "Declined", "="},
    {"None", "Lapse", "="},
    {"None", "Release", "="},

    {"Pending", "Create", "="},
    {"Pending", "TriggerCreate", "="},
    {"Pending", "TriggerStart", "="},
    {"Pending", "TriggerCommand", "="},
    {"Pending", "Stop", "Stopping"},
    {"Pending", "MoneyStop", "Stopping"},
    {"Pending", "Delete", "Terminating"},
    {"Pending", "Number", "SandboxNotRunning"},
    {"Pending", "Funded", "Pending"},
    {"Pending", "Slot", "Starting"},
    {"Pending", "Declined", "="},
    {"Pending", "Lapse", "Stopped"},
    {"Pending", "Expired", "Pending"},
    {"Pending", "Crash", "Failed"},

    {"Starting", "TriggerCommand", "="},
    {"Starting", "Stop", "Stopping"},
    {"Starting", "Delete", "Terminating"},
    {"Starting", "Number", "SandboxNotRunning"},
    {"Starting", "Funded", "="},
    {"Starting", "Slot", "="},
    {"Starting", "Started", "Running"},
    {"Starting", "Release", "Stopped"},

    {"Running", "Create", "="},
    {"Running", "TriggerCommand", "="},
    {"Running", "Stop", "Stopping"},
    {"Running", "MoneyStop", "Stopping"},
    {"Running", "Delete", "Terminating"},
    {"Running", "Number", "Running"},
    {"Running", "Started", "="},
    {"Running", "Declined", "="},
    {"Running", "Crash", "Failed"},

    {"Stopping", "TriggerCreate", "Stopping"},
    {"Stopping", "TriggerCommand", "Stopping"},
    {"Stopping", "Stop", "="},
    {"Stopping", "MoneyStop", "="},
    {"Stopping", "Delete", "Terminating"},
    {"Stopping", "Number", "SandboxNotRunning"},
    {"Stopping", "Declined", "="},
    {"IdleStopping", "Declined", "Running"},
    {"IdleStopping", "Stop", "Stopping"},
    {"IdleStopping", "MoneyStop", "Stopping"},
    {"IdleStopping", "Release", "Stopped"},
    {"Stopping", "Release", "Stopped"},
    {"Stopping", "Crash", "Stopped"},
    {"Stopping", "Lapse", "Stopped"},

    {"Stopped", "TriggerCreate", "Pending"},
    {"Stopped", "TriggerStart", "Pending"},
    {"Stopped", "TriggerCommand", "Pending"},
    {"Stopped", "Stop", "="},
    {"Stopped", "MoneyStop", "="},
    {"Stopped", "Delete", "Deleted"},
    {"Stopped", "Number", "SandboxNotRunning"},
    {"Stopped", "Funded", "="},
    {"Stopped", "Slot", "="},
    {"Stopped", "Started", "="},
    {"Stopped", "Declined", "="},
    {"Stopped", "Lapse", "="},
    {"Stopped", "Release", "="},

    {"Refused", "TriggerCreate", "="},
    {"Refused", "TriggerStart", "InsufficientCredits"},
    {"Refused", "TriggerCommand", "InsufficientCredits"},
    {"Refused", "Stop", "="},
    {"Refused", "Delete", "Deleted"},

    {"Failed", "TriggerCreate", "="},
    {"Failed", "TriggerStart", "Pending"},
    {"Failed", "TriggerCommand", "SandboxFailed"},
    {"Failed", "Stop", "="},
    {"Failed", "Delete", "Deleted"},
    {"Failed", "Crash", "="},

    {"Terminating", "Create", "="},
    {"Terminating", "TriggerCreate", "SandboxNotRunning"},
    {"Terminating", "TriggerStart", "SandboxNotRunning"},
    {"Terminating", "TriggerCommand", "SandboxNotRunning"},
    {"Terminating", "Stop", "SandboxNotRunning"},
    {"Terminating", "MoneyStop", "="},
    {"Terminating", "Delete", "="},
    {"Terminating", "Number", "SandboxNotRunning"},
    {"Terminating", "Declined", "="},
    {"Terminating", "Lapse", "Deleted"},
    {"Terminating", "Expired", "Deleted"},
    {"Terminating", "Release", "Deleted"},
    {"Terminating", "Crash", "Deleted"},

    {"Deleted", "Create", "="},
    {"Deleted", "TriggerStart", "NotFound"},
    {"Deleted", "Stop", "NotFound"},
    {"Deleted", "MoneyStop", "="},
    {"Deleted", "Delete", "NotFound"},
    {"Deleted", "Funded", "="},
    {"Deleted", "Release", "="},
};

TEST(Sandbox, EveryCellOfTheTable) {
  for (const auto& cell : kTable) {
    Given given = kStates.at(cell.state)();
    const auto events = given.when(kMessages.at(cell.message));
    std::string outcome = "=";
    if (!events) {
      outcome = events.error().reason;
    } else if (!events->empty()) {
      for (const auto& event : *events) given.event(event);
      outcome = to_string(given.state.phase);
    }
    EXPECT_EQ(outcome, cell.outcome) << cell.state << " × " << cell.message;
    // A repeat of an accepted command yields nothing.
    const bool repeats =
        cell.message != "Number" && cell.message != "Expired" && !cell.message.starts_with("Trigger");
    if (events && !events->empty() && repeats) {
      const auto again = given.when(kMessages.at(cell.message));
      if (again) EXPECT_TRUE(again->empty()) << cell.state << " × " << cell.message << ", twice";
    }
  }
}

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
