#include "services/lifecycle/adapters/codec.hpp"

#include "tests/unit/lifecycle/sandbox_fixture.hpp"

namespace nodus::lifecycle::test {
namespace {

// Encoding an event and decoding it again leads to the same state; and the state itself survives.
void survives(Given given, const std::vector<SandboxEvent>& events) {
  Sandbox direct = given.state;
  Sandbox decoded = given.state;
  for (const auto& event : events) {
    SandboxAggregate::evolve(direct, event);
    const auto bytes = SandboxCodec::encode(event, direct);
    const auto back = SandboxCodec::decode(bytes.type, bytes.payload);
    ASSERT_TRUE(back.has_value()) << bytes.type;
    SandboxAggregate::evolve(decoded, *back);
    EXPECT_EQ(decoded, direct) << bytes.type;
    const auto state = SandboxCodec::decode_state(SandboxCodec::encode_state(direct));
    ASSERT_TRUE(state.has_value());
    EXPECT_EQ(*state, direct) << bytes.type;
  }
}

TEST(SandboxCodec, EveryEventSurvives) {
  survives(none(), {hello(),
                    StartRequested{1, Trigger::kFile, *Money::parse("0.5"), at_s(1)},
                    FundingRecorded{1, kRate, {}, at_s(2)},
                    SlotRecorded{1, 7, "machine-1", "127.0.0.1:7410", at_s(3)},
                    RunningRecorded{1, "runc", at_s(4)},
                    ProcessNumbered{12, at_s(4)},
                    StopRequested{1, StopReason::kIdle, at_s(5), at_s(6)},
                    StopDeclined{1, at_s(7), "process 42 (node)", at_s(8)},
                    StopRequested{1, StopReason::kUser, {}, at_s(8)},
                    WakeRecorded{Trigger::kCommand, at_s(9)},
                    release(),
                    PaidUntilRecorded{1, 99},
                    StartDeferred{3, at_s(60), at_s(8), true},
                    StopWished{at_s(9)},
                    ActivityNoted{7, true, "process 42 (node)", at_s(5), at_s(6)},
                    LifetimeWarned{at_s(9)},
                    StartRequested{3, Trigger::kRecovery, {}, at_s(9)},
                    ChargeRecorded{1, *Money::parse("0.000000000001")},
                    MaxCostRaised{*Money::parse("3"), at_s(10)},
                    MetadataChanged{{{"tier", "one"}}, {{"note", "why"}}, at_s(10)},
                    StartRequested{2, Trigger::kStart, {}, at_s(11)},
                    FundingRecorded{2, std::nullopt, broke(), at_s(1)},
                    DeleteRequested{"MaxLifetime", at_s(12)},
                    SandboxDeleted{at_s(13)}});
}

TEST(SandboxCodec, UnknownTypeAndBrokenBytesAreErrors) {
  EXPECT_EQ(SandboxCodec::decode("nodus.lifecycle.v9.Surprise", "").error().reason, "UnknownEventType");
  EXPECT_FALSE(SandboxCodec::decode("nodus.lifecycle.v1.SandboxCreated", "\xff\xff").has_value());
  EXPECT_FALSE(SandboxCodec::decode_state("\xff\xff").has_value());
}

TEST(ProcessCodec, Survives) {
  const ProcessAdmitted admitted{.uid = ProcessUid("p-1"),
                                 .sandbox = SandboxUid("u-1"),
                                 .project = ProjectId("web"),
                                 .sandbox_name = "hello",
                                 .start = 2,
                                 .epoch = 3,
                                 .machine = "machine-1",
                                 .name = "sb-hello-12",
                                 .command = {"sh", "-c", "exit 3"},
                                 .timeout = std::chrono::minutes(10),
                                 .at = at_s(1)};
  const ProcessEnded ended{"NonZeroExit", 3, "why", at_s(2), at_s(3)};
  Process process;
  for (const ProcessEvent& event : {ProcessEvent(admitted), ProcessEvent(ended)}) {
    Process direct = process;
    ProcessAggregate::evolve(direct, event);
    const auto bytes = ProcessCodec::encode(event, direct);
    const auto back = ProcessCodec::decode(bytes.type, bytes.payload);
    ASSERT_TRUE(back.has_value());
    ProcessAggregate::evolve(process, *back);
  }
  const auto state = ProcessCodec::decode_state(ProcessCodec::encode_state(process));
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->admitted.command, admitted.command);
  EXPECT_EQ(state->admitted.machine, "machine-1");
  EXPECT_EQ(state->ended->reason, "NonZeroExit");
  EXPECT_EQ(state->ended->started_at, at_s(2));
}

TEST(Process, EndsOnceAndOnlyByItsMachineAndEpoch) {
  Process p;
  ProcessAdmitted admitted;
  admitted.uid = ProcessUid("p-1");
  admitted.machine = "machine-1";
  admitted.epoch = 3;
  ProcessAggregate::evolve(p, admitted);
  const ProcessEnded ended{"", 0, "", {}, at_s(3)};
  EXPECT_EQ(ProcessAggregate::decide(p, EndProcess{"machine-2", 3, ended}, {}).error().reason, "NotFound");
  EXPECT_EQ(ProcessAggregate::decide(p, EndProcess{"machine-1", 2, ended}, {}).error().reason, "StaleEpoch");
  ASSERT_EQ(ProcessAggregate::decide(p, EndProcess{"machine-1", 3, ended}, {})->size(), 1u);
  ProcessAggregate::evolve(p, ended);
  EXPECT_TRUE(
      ProcessAggregate::decide(p, EndProcess{"", 3, {"ParentStopped", 137, "", {}, at_s(4)}}, {})->empty());
}

}  // namespace
}  // namespace nodus::lifecycle::test
