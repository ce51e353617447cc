// What is said of a Sandbox: conditions, the end that comes next, the warning before maxLifetime.
#include "services/lifecycle/domain/status.hpp"

#include "tests/unit/lifecycle/sandbox_fixture.hpp"

namespace nodus::lifecycle::test {
namespace {

Condition condition(const Given& given, ConditionType type) {
  return conditions_of(given.state)[static_cast<size_t>(type)];
}

struct Row {
  std::string name;
  Given given;
  std::string ready;
  std::string scheduled;
  std::string funded;
  std::string restorable;
};

std::string text(const Condition& c) {
  return std::string(to_string(c.status)) + "/" + c.reason;
}

TEST(Conditions, FollowTheState) {
  const std::vector<Row> rows = {
      {"pending", pending(), "False/Pending", "False/WaitingForFunds", "Unknown/Asked",
       "False/NoRestorePoint"},
      {"funded", funded(), "False/Pending", "False/WaitingForMachine", "True/StartFunded",
       "False/NoRestorePoint"},
      {"deferred", deferred(), "False/Pending", "False/NoMachine", "Unknown/Asked", "False/NoRestorePoint"},
      {"starting", starting(), "False/Starting", "True/SlotReserved", "True/StartFunded",
       "False/NoRestorePoint"},
      {"running", running(), "True/Running", "True/SlotReserved", "True/StartFunded", "False/NoRestorePoint"},
      {"stopping", stopping(), "False/Stopping", "True/SlotReserved", "True/StartFunded",
       "False/NoRestorePoint"},
      {"stopped", stopped(), "False/Stopped", "False/NotWanted", "Unknown/NotAsked",
       "True/RestorePointVerified"},
      {"refused", refused(), "False/Stopped", "False/NotWanted", "False/InsufficientCredits",
       "False/NoRestorePoint"},
      {"failed", failed(), "False/Failed", "False/NotWanted", "Unknown/NotAsked",
       "True/RestorePointVerified"},
      {"recovering", recovering(), "False/Recovering", "False/WaitingForFunds", "Unknown/Asked",
       "True/RestorePointVerified"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(text(condition(row.given, ConditionType::kReady)), row.ready) << row.name;
    EXPECT_EQ(text(condition(row.given, ConditionType::kScheduled)), row.scheduled) << row.name;
    EXPECT_EQ(text(condition(row.given, ConditionType::kFunded)), row.funded) << row.name;
    EXPECT_EQ(text(condition(row.given, ConditionType::kRestorable)), row.restorable) << row.name;
  }
  EXPECT_NE(condition(refused(), ConditionType::kFunded).message.find("needs a hold of $0.000437500000"),
            std::string::npos);
}

TEST(Conditions, TimeIsThatOfTheLastChangeOfStatus) {
  const auto ready = [](const Given& g) { return condition(g, ConditionType::kReady).since; };
  EXPECT_EQ(ready(pending()), at_s(0));
  EXPECT_EQ(ready(starting()), at_s(0)) << "not ready, as before";
  EXPECT_EQ(ready(running()), at_s(5));
  EXPECT_EQ(ready(stopping()), at_s(50));
  EXPECT_EQ(ready(stopped()), at_s(50)) << "not ready, as before";
  EXPECT_EQ(condition(starting(), ConditionType::kFunded).since, at_s(1));
  EXPECT_EQ(condition(stopped(), ConditionType::kRestorable).since, at_s(52));
}

TEST(Conditions, AFullCapIsTheReasonUntilItIsRaised) {
  auto given = running().run(RequestStop{StopReason::kMaxCostReached, 1}, 60);
  given.run(RecordRelease{release(StopReason::kMaxCostReached)}, 61);
  given.run(RecordCharge{{1, *Money::parse("1.00")}}, 62);
  EXPECT_EQ(text(condition(given, ConditionType::kFunded)), "False/BudgetExceeded");
  given.run(RaiseMaxCost{*Money::parse("2.00")}, 70);
  EXPECT_EQ(text(condition(given, ConditionType::kFunded)), "Unknown/NotAsked");
  EXPECT_EQ(given.state.phase, Phase::kStopped) << "raising wakes nothing";
}

std::string next(const Given& given, const Usage& usage = {}) {
  const auto end = next_end(given.state, usage);
  if (!end) return "-";
  const int64_t s = to_micros(end->at) / 1'000'000 - to_micros(at_s(0)) / 1'000'000;
  return std::string(end->action) + " " + end->reason + " " + std::to_string(s);
}

TEST(NextEnd, SaysWhenAndWhy) {
  EXPECT_EQ(next(none()), "-");
  EXPECT_EQ(next(stopped()), "Delete MaxLifetime 7200");
  EXPECT_EQ(next(running()), "Stop Idle 305");
  EXPECT_EQ(next(running(), {.busy = true, .last_activity = {}, .awake_because = ""}),
            "Delete MaxLifetime 7200");
  EXPECT_EQ(next(running(), {.busy = false, .last_activity = at_s(100), .awake_because = ""}),
            "Stop Idle 400");
  EXPECT_EQ(next(stopping()), "Stop User 50");
  EXPECT_EQ(next(terminating()), "Delete User 60");
  auto capped = starting();
  capped.state.spec.max_cost = kRate * 1000;
  capped.run(RecordRunning{{1, "runsc", at_s(5)}}, 5);
  EXPECT_EQ(next(capped, {.busy = true, .last_activity = {}, .awake_because = ""}),
            "Stop MaxCostReached 1002");
  auto deletes = running();
  deletes.state.spec.on_idle = OnIdle::kDelete;
  EXPECT_EQ(next(deletes), "Delete Idle 305");
  auto never = running();
  never.state.spec.idle_timeout = Micros(0);
  EXPECT_EQ(next(never), "Delete MaxLifetime 7200") << "0s never idles";
  EXPECT_TRUE(never.when(CheckIdle{}, 7000)->empty());
}

TEST(Warning, ComesOnceAndBeforeTheEnd) {
  for (auto given : {pending(), running(), stopped(), failed(), refused(), recovering()}) {
    EXPECT_TRUE(given.when(CheckWarning{}, 6479)->empty()) << "early";
    given.run(CheckWarning{}, 6480);
    EXPECT_TRUE(given.state.warned);
    EXPECT_TRUE(given.when(CheckWarning{}, 6500)->empty()) << "twice";
    for (const auto& deadline : deadlines_of(given.state)) EXPECT_NE(deadline.kind, "warning");
  }
  EXPECT_TRUE(running().when(CheckWarning{}, 7200)->empty()) << "too late to warn of";
  SandboxSpec spec;
  spec.max_lifetime = std::chrono::hours(720);
  EXPECT_EQ(warning_lead(spec), Micros(std::chrono::hours(1)));
  spec.max_lifetime = std::chrono::minutes(1);
  EXPECT_EQ(warning_lead(spec), Micros(std::chrono::seconds(6)));
}

}  // namespace
}  // namespace nodus::lifecycle::test
