#include <gtest/gtest.h>

#include <future>

#include "tests/integration/scheduler/stack.hpp"

namespace nodus::scheduler::test {
namespace {

using Types = std::vector<std::string>;
const Types kWholeStart = {"SlotPlanned",    "SlotOffered",  "SlotReserved",
                           "SandboxStarted", "SlotStopping", "SlotReleased"};

TEST(Service, AStartAndAStopThroughTheBusAndTheNodeChannel) {
  Stack s;
  s.start();
  FakeNode node(s.port, "m1");
  s.request_start("u1");
  ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
  s.fund("u1");
  ASSERT_TRUE(s.reaches("u1", "SandboxStarted"));
  s.stop("u1");
  ASSERT_TRUE(s.reaches("u1", "SlotReleased"));
  EXPECT_EQ(s.types("u1"), kWholeStart);
  const auto released = s.last<scheduler::v1::SlotReleased>("u1");
  EXPECT_EQ(released.stop_reason(), common::v1::STOP_REASON_USER);
  EXPECT_EQ(released.restore_point().object(), "acme/u1");
  const auto& t = released.times();
  EXPECT_LT(0, t.reserved_at_us());
  EXPECT_LE(t.reserved_at_us(), t.started_at_us());
  EXPECT_LE(t.started_at_us(), t.stopping_at_us());
  EXPECT_LE(t.stopping_at_us(), t.released_at_us());
  EXPECT_EQ(s.end(), 0) << "drained";
}

TEST(Service, AFirstPurchaseIsHeardAndLiftsTheLimit) {
  Stack s("  machineTypes: [\"m4=4,4Gi,4Gi\"]\n  sharedLimit: {cpu: \"0.5\"}\n");
  s.start();
  s.request_start("before");
  ASSERT_TRUE(s.reaches("before", "SlotOffered"));
  const auto own = s.last<scheduler::v1::SlotOffered>("before");
  EXPECT_EQ(own.sharing() + " " + own.machine_type(), "Own m4");
  metering::v1::FirstPurchase bought;
  bought.set_org("acme");
  bought.set_id("stripe/pi_1");
  bought.set_at_us(1);
  s.metering.append("account/acme", bought);
  s.metering.append("account/acme", bought);
  int64_t start = 1;
  EXPECT_TRUE(eventually([&] {  // what was offered before stays as it was
    const auto uid = "after-" + std::to_string(start++);
    s.request_start(uid);
    return s.reaches(uid, "SlotOffered") && s.last<scheduler::v1::SlotOffered>(uid).sharing() == "Shared";
  }));
  EXPECT_EQ(s.run({"parked", "list"}).find("FirstPurchase"), std::string::npos);
}

// The process is killed before each step in turn, and started again after it: the same facts, once each.
class Killed : public testing::TestWithParam<int> {};
TEST_P(Killed, BetweenAnyTwoStepsTheOutcomeIsTheSame) {
  Stack s;
  s.start();
  FakeNode node(s.port, "m1");
  int step = 0;
  auto around = [&](const std::function<void()>& send) {
    const bool now = step++ == GetParam();
    if (now) s.kill();
    send();
    if (now) s.start();
  };
  around([&] { s.request_start("u1"); });
  ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
  around([&] { s.fund("u1"); });
  ASSERT_TRUE(s.reaches("u1", "SandboxStarted"));
  around([&] { s.stop("u1"); });
  ASSERT_TRUE(s.reaches("u1", "SlotReleased"));
  around([&] { s.request_start("u1", 2); });
  ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
  auto types = s.types("u1");
  std::erase(types, "SlotPlanned");  // twice where it had to wait for the machine to be heard of again
  EXPECT_EQ(types.size(), kWholeStart.size());  // the first start but for its plan, and the second offer
  around([&] { s.fund("u1", 2); });
  ASSERT_TRUE(s.reaches("u1", "SandboxStarted"));
  EXPECT_EQ(s.last<scheduler::v1::SandboxStarted>("u1").slot().epoch(), 2);
}
INSTANTIATE_TEST_SUITE_P(Service, Killed, testing::Range(0, 5));

TEST(Service, AKillWhileAllIsUnderWayLosesAndDoublesNothing) {
  Stack s;
  s.start();
  FakeNode one(s.port, "m1"), two(s.port, "m2");
  constexpr int kCount = 8;
  auto uid = [](int i) { return "u" + std::to_string(i); };
  for (int i = 0; i < kCount; ++i) s.request_start(uid(i));
  s.kill();
  s.start();
  for (int i = 0; i < kCount; ++i)
    ASSERT_TRUE(s.reaches(uid(i), "SlotOffered")) << i;  // what metering answers
  for (int i = 0; i < kCount; ++i) s.fund(uid(i));
  s.kill();
  s.start();
  for (int i = 0; i < kCount; ++i) ASSERT_TRUE(s.reaches(uid(i), "SandboxStarted")) << i;
  for (int i = 0; i < kCount; ++i) s.stop(uid(i));
  s.kill();
  s.start();
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(s.reaches(uid(i), "SlotReleased")) << i;
    auto types = s.types(uid(i));
    std::erase(types, "SlotPlanned");  // twice where it had to wait for a machine to be heard of again
    EXPECT_EQ(types, Types(kWholeStart.begin() + 1, kWholeStart.end())) << i;
    EXPECT_EQ(s.last<scheduler::v1::SlotReleased>(uid(i)).failure(), "");
  }
}

TEST(NodeChannel, AHangingPollIsAnsweredByAReservation) {
  Stack s("  lease: 10m\n  poll: 5m\n");
  s.start();
  auto request = sync_request("m1");
  node::v1::SyncResponse told;
  auto answer = sync_once(s.port, token_of("m1"), request.SerializeAsString());
  ASSERT_TRUE(answer && told.ParseFromString(answer->body));
  EXPECT_EQ(told.poll_ms(), 300'000);
  request.set_seen_version(told.version());
  auto hanging = std::async(std::launch::async, [&] {
    return sync_once(s.port, token_of("m1"), request.SerializeAsString(), Millis(60'000));
  });
  s.request_start("u1");
  ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
  s.fund("u1");
  answer = hanging.get();
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_TRUE(told.ParseFromString(answer->body));
  ASSERT_EQ(told.slots_size(), 1);
  EXPECT_EQ(told.slots(0).desired(), node::v1::DESIRED_RUN);
  EXPECT_TRUE(told.complete());
}

TEST(NodeChannel, AHangingPollIsAnsweredByAStop) {
  Stack s("  lease: 10m\n  poll: 5m\n");
  s.start();
  auto request = sync_request("m1");
  node::v1::SyncResponse told;
  auto sync = [&] {
    auto answer = sync_once(s.port, token_of("m1"), request.SerializeAsString(), Millis(60'000));
    EXPECT_TRUE(answer && told.ParseFromString(answer->body));
    request.set_seen_version(told.version());
  };
  sync();
  s.request_start("u1");
  ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
  s.fund("u1");
  sync();
  auto* slot = request.add_slots();
  slot->set_sandbox_uid("u1");
  slot->set_epoch(1);
  slot->set_phase(node::v1::SLOT_PHASE_RUNNING);
  auto hanging = std::async(std::launch::async, sync);
  ASSERT_TRUE(s.reaches("u1", "SandboxStarted"));
  s.stop("u1");
  hanging.get();
  ASSERT_EQ(told.slots_size(), 1);
  EXPECT_EQ(told.slots(0).desired(), node::v1::DESIRED_STOP);
  EXPECT_EQ(told.slots(0).stop_reason(), common::v1::STOP_REASON_USER);
}

TEST(NodeChannel, RefusesWhatIsNotANodesSync) {
  Stack s;
  s.start();
  const auto good = sync_request("m1");
  auto status = [&](const std::string& token, const std::string& body) {
    const auto answer = sync_once(s.port, token, body);
    return answer ? answer->status : 0;
  };
  EXPECT_EQ(status("", good.SerializeAsString()), 401);
  EXPECT_EQ(status(token_of("m2"), good.SerializeAsString()), 401) << "another machine's token";
  EXPECT_EQ(status(token_of("m1"), "\xff\xff"), 400);
  auto bad = good;
  bad.set_runtime("crun");
  EXPECT_EQ(status(token_of("m1"), bad.SerializeAsString()), 422);
  EXPECT_EQ(status(token_of("m1"), good.SerializeAsString()), 200);
  auto stolen = good;
  stolen.set_org("other");
  EXPECT_EQ(status(token_of("m1"), stolen.SerializeAsString()), 403);
}

TEST(Operator, ParkedMessagesAreListedReplayedAndSkipped) {
  Stack s;
  s.start();
  EXPECT_EQ(s.run({"parked", "list"}), "Nothing is parked.\n");
  s.stop("u1", 7);  // of a start that nobody planned
  ASSERT_TRUE(eventually([&] {
    return s.run({"parked", "list"}).find("UnknownStart") != std::string::npos ||
           s.run({"parked", "list"}).find("never planned") != std::string::npos;
  }));
  s.request_start("u2");
  EXPECT_TRUE(s.reaches("u2", "SlotOffered")) << "it stops nobody else";
  EXPECT_EQ(s.run({"parked", "replay", "--topic", "lifecycle", "--stream", "sandbox/u1"})
                .find("1 messages applied"),
            std::string::npos);
  EXPECT_EQ(s.run({"parked", "skip", "--topic", "lifecycle", "--stream", "sandbox/u1"}),
            "1 messages skipped.\n");
  EXPECT_EQ(s.run({"parked", "list"}), "Nothing is parked.\n");
}

TEST(Operator, AParkedMessageIsAppliedOnceItsTimeHasCome) {
  Stack s;
  s.start();
  FakeNode node(s.port, "m1");
  s.request_start("u1");
  ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
  s.fund("u1");
  ASSERT_TRUE(s.reaches("u1", "SandboxStarted"));
  s.request_start("u1", 2);  // too early
  ASSERT_TRUE(eventually([&] { return s.run({"parked", "list"}).find("sandbox/u1") != std::string::npos; }));
  lifecycle::v1::StopRequested stop;
  stop.set_uid("u1");
  stop.set_start(1);
  stop.set_reason(common::v1::STOP_REASON_USER);
  s.lifecycle.append("another/u1", stop);  // its own stream is parked
  ASSERT_TRUE(s.reaches("u1", "SlotReleased"));
  EXPECT_EQ(s.run({"parked", "replay", "--topic", "lifecycle", "--stream", "sandbox/u1"}),
            "1 messages applied.\n");
  ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
  EXPECT_EQ(s.run({"parked", "list"}), "Nothing is parked.\n");
}

TEST(Operator, MachinesAreListedWithWhatIsTaken) {
  Stack s;
  s.start();
  FakeNode node(s.port, "m1");
  s.request_start("u1");
  ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
  s.fund("u1");
  ASSERT_TRUE(s.reaches("u1", "SandboxStarted"));
  const auto table = s.run({"machines"});
  for (const char* part : {"m1", "acme", "runsc", "1/4", "1Gi/4Gi", "live"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " in\n" << table;
}

TEST(Operator, AMachineIsDeclaredLostOnceItsLeaseHasEnded) {
  Stack s("  poll: 1s\n  lease: 3s\n");
  s.start();
  {
    FakeNode node(s.port, "m1");
    s.request_start("u1");
    ASSERT_TRUE(s.reaches("u1", "SlotOffered"));
    s.fund("u1");
    ASSERT_TRUE(s.reaches("u1", "SandboxStarted"));
    int code = 0;
    s.run({"machines", "lost", "--machine", "m1"}, &code);
    EXPECT_EQ(code, 2) << "it reports";
    EXPECT_EQ(s.types("u1").back(), "SandboxStarted");
  }
  ASSERT_TRUE(eventually([&] { return s.run({"machines"}).find("ended") != std::string::npos; }));
  int code = 0;
  const auto said = s.run({"machines", "lost", "--machine", "m1"}, &code);
  EXPECT_EQ(code, 0);
  EXPECT_NE(said.find("Sandbox u1"), std::string::npos) << said;
  const auto released = s.last<v1::SlotReleased>("u1");
  EXPECT_EQ(released.failure(), "NodeLost");
  EXPECT_NE(s.run({"machines", "lost", "--machine", "m1"}).find("already lost"), std::string::npos);
  EXPECT_NE(s.run({"machines"}).find("lost"), std::string::npos);
  s.run({"machines", "lost", "--machine", "m9"}, &code);
  EXPECT_EQ(code, 2);
  FakeNode back(s.port, "m1");  // the incarnation that was lost
  s.request_start("u2");
  ASSERT_TRUE(s.reaches("u2", "SlotOffered"));
  s.fund("u2");
  EXPECT_TRUE(s.reaches("u2", "SlotPlanned")) << "it waits: there is no machine";
}

TEST(Operator, FaultsEndWithCodeTwo) {
  Stack taken;
  taken.start();
  int code = 0;
  taken.run({}, &code);
  EXPECT_EQ(code, 2) << "the port is taken";
  Stack unknown("  offerTTL: 60s\n");
  unknown.run({}, &code);
  EXPECT_EQ(code, 2) << "an unknown key";
  Stack slow("  lease: 5s\n  poll: 5s\n");
  slow.run({}, &code);
  EXPECT_EQ(code, 2) << "a poll that outlasts the lease";
}

}  // namespace
}  // namespace nodus::scheduler::test
