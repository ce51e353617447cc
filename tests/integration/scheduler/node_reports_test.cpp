#include "libs/telemetry/metrics.hpp"
#include "tests/integration/scheduler/world.hpp"

namespace nodus::scheduler::test {
namespace {

TEST(NodeReports, AbsenceCountsOnlyWhenTheNodeHasHeardOfTheSlot) {
  World w;
  Node node;
  w.synced(node);
  w.plan("u1");
  w.send("u1", Fund{1});
  auto unheard = node;  // it has not heard yet, and lists nothing
  w.synced(unheard);
  EXPECT_EQ(w.phase("u1"), Phase::kReserved);
  w.synced(node);
  node.says("u1", NodeSays::kRunning);
  w.synced(node);
  node.forgets("u1");
  w.synced(node);
  EXPECT_EQ(std::get<Released>(w.last_event("u1")).failure, "Crashed");
  EXPECT_EQ(w.synced(node).used, Shape{});
}

TEST(NodeReports, AbsenceCountsAlsoWhileTheMachinesVersionMovesOn) {
  World w;
  Node node;
  w.synced(node);
  running(w, node, "u1");
  w.plan("u2");
  w.send("u2", Fund{1});  // the version is past what the node saw
  node.forgets("u1");
  w.synced(node);
  EXPECT_EQ(w.phase("u1"), Phase::kNone);
  EXPECT_EQ(w.phase("u2"), Phase::kReserved);
}

TEST(NodeReports, ARebootEndsWhatWasUpAndStartsWhatWasNot) {
  World w;
  Node node;
  w.synced(node);
  running(w, node, "up");
  w.plan("coming");
  w.send("coming", Fund{1});
  w.synced(node);
  node.reboots();
  const auto told = w.synced(node);
  EXPECT_EQ(std::get<Released>(w.last_event("up")).message, "The machine was restarted.");
  EXPECT_EQ(w.phase("coming"), Phase::kReserved);
  ASSERT_EQ(told.slots.size(), 1u);
  EXPECT_EQ(told.slots[0].sandbox.str(), "coming");
  EXPECT_EQ(told.incarnation, node.sync.incarnation);
}

TEST(NodeReports, ALostMachineIsToldSoAndComesBackAsANewOne) {
  World w;
  Node node;
  w.synced(node);
  running(w, node, "u1");
  const auto reported = w.clock.now();
  w.clock.advance(Seconds(90));
  w.send("u1", Stop{1, StopReason::kUser, {}});  // an order that reaches nobody
  w.clock.advance(Seconds(10));
  ASSERT_TRUE(w.log
                  ->run(std::vector{w.slots.loss(MachineId("m1")),
                                    w.slots.lose(SandboxUid("u1"), {MachineId("m1"), 1, reported})})
                  .back());
  const auto released = std::get<Released>(w.last_event("u1"));
  EXPECT_EQ(released.failure, "NodeLost");
  EXPECT_EQ(released.times.released_at, reported);
  EXPECT_EQ(released.times.stopping_at, kNever);
  w.expect_rebuilds("u1");
  node.says("u1", NodeSays::kRunning);
  const auto told = w.syncs.apply(node.sync);  // it is back, as it was
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->is_lost(node.sync.incarnation));
  w.plan("u2");
  w.send("u2", Fund{1});
  w.run_placer();
  EXPECT_EQ(w.phase("u2"), Phase::kFunded) << "it gets no work";
  const auto before = node;
  node.reboots();
  EXPECT_FALSE(w.synced(node).lost());
  w.run_placer();
  EXPECT_EQ(w.phase("u2"), Phase::kReserved);
  ASSERT_TRUE(w.syncs.apply(before.sync));  // words that were long under way
  EXPECT_EQ(w.phase("u2"), Phase::kReserved);
  EXPECT_EQ(w.phase("u1"), Phase::kNone);
}

TEST(NodeReports, OnlyTheOrderThatStandsCanBeDeclined) {
  World w;
  Node node;
  w.synced(node);
  running(w, node, "u1");
  w.send("u1", Stop{1, StopReason::kIdle, w.clock.now()});
  w.synced(node);
  node.declines("u1", w.clock.now());
  const auto old = node;
  w.synced(node);
  EXPECT_EQ(w.phase("u1"), Phase::kStarted);
  node.says("u1", NodeSays::kRunning);
  w.synced(node);
  w.clock.advance(Seconds(1));
  w.send("u1", Stop{1, StopReason::kIdle, w.clock.now()});
  auto late = old;  // the same words again, as a repeated request would bring them
  ASSERT_TRUE(w.syncs.apply(late.sync));
  EXPECT_EQ(w.phase("u1"), Phase::kStopping);
  w.synced(node);
  node.says("u1", NodeSays::kStopped);
  w.synced(node);
  EXPECT_EQ(w.phase("u1"), Phase::kNone);
  w.expect_rebuilds("u1");
}

// A node may report beside its long poll, with version 0, for an answer at once; its clock need not agree.
TEST(NodeReports, ADeclineIsHeardBesideThePoll) {
  World w;
  Node node;
  w.synced(node);
  running(w, node, "u1");
  w.send("u1", Stop{1, StopReason::kIdle, w.clock.now()});
  w.synced(node);
  node.declines("u1", w.clock.now());
  node.sync.seen_version = 0;
  node.sync.slots[0].report.last_activity = w.clock.now() - Seconds(1);
  w.synced(node);
  EXPECT_EQ(w.phase("u1"), Phase::kStarted);
}

TEST(NodeReports, ReportsAboutTheSlotsOfOthersChangeNothingAndAreCounted) {
  World w;
  Node node, thief("m2");
  w.synced(node);
  running(w, node, "u1");
  w.synced(thief);
  auto refused = [](const std::string& reason) {
    return metrics::counter("nodus_scheduler_reports_refused_total", "", {{"reason", reason}}).value();
  };
  const double machine = refused("machine"), epoch = refused("epoch"), unknown = refused("unknown");
  Report report;
  report.machine = thief.sync.machine;
  report.says = NodeSays::kFailed;
  report.epoch = 1;
  thief.sync.slots = {{SandboxUid("u1"), report}, {SandboxUid("never"), report}};
  const auto before = w.positions();
  ASSERT_TRUE(w.syncs.apply(thief.sync));
  EXPECT_EQ(refused("machine"), machine + 1);
  EXPECT_EQ(refused("unknown"), unknown + 1);
  EXPECT_EQ(w.positions(), before);
  w.send("u1", Stop{1, StopReason::kUser, kNever});
  w.synced(node);
  node.says("u1", NodeSays::kStopped);
  w.synced(node);
  running(w, node, "u1", 2);
  thief.sync.slots.pop_back();
  ASSERT_TRUE(w.syncs.apply(thief.sync));
  EXPECT_EQ(refused("epoch"), epoch + 1);
  EXPECT_EQ(w.phase("u1"), Phase::kStarted);
}

TEST(NodeReports, AMachineServesOneOrganizationForGood) {
  World w;
  Node node;
  w.synced(node);
  node.sync.org = OrgId("other");
  EXPECT_EQ(w.syncs.apply(node.sync).error().reason, "OtherOrganization");
  node.sync.org = OrgId();
  EXPECT_TRUE(w.syncs.apply(node.sync)) << "what it was registered for";
}

TEST(NodeReports, TheListOfMachinesDecidesWhoMayRegister) {
  World w;
  FleetPolicy listed;
  listed.machines[MachineId("m1")] = OrgId("acme");
  NodeSyncs strict(w.clock, *w.log, *w.rows, w.slots, w.fleet, listed, Seconds(30), [] {});
  Node known("m1"), unknown("m2");
  known.sync.org = OrgId();
  EXPECT_EQ(strict.apply(known.sync)->org, OrgId("acme"));
  known.sync.org = OrgId("other");
  EXPECT_EQ(strict.apply(known.sync).error().reason, "OtherOrganization");
  EXPECT_EQ(strict.apply(unknown.sync).error().reason, "MachineUnknown");
  Node homeless("m3");
  homeless.sync.org = OrgId();
  EXPECT_EQ(w.syncs.apply(homeless.sync).error().reason, "NoOrganization");
}

}  // namespace
}  // namespace nodus::scheduler::test
