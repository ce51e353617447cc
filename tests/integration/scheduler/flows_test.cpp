#include <thread>

#include "tests/integration/scheduler/world.hpp"

namespace nodus::scheduler::test {
namespace {

using Types = std::vector<std::string>;

TEST(Flows, StartStopAndStartAgain) {
  World w;
  Node node;
  const auto empty = w.synced(node);
  EXPECT_EQ(empty.version, 1);
  for (int64_t start = 1; start <= 2; ++start) {
    EXPECT_EQ(w.plan("u1", start), "changed");
    EXPECT_EQ(w.plan("u1", start), "") << "a repeat";
    EXPECT_EQ(w.send("u1", Fund{start}), "changed");
    EXPECT_EQ(w.send("u1", Fund{start}), "");
    auto told = w.synced(node);
    EXPECT_EQ(desired(told).desired(), node::v1::DESIRED_RUN);
    EXPECT_EQ(desired(told).start(), start);
    EXPECT_EQ(desired(told).epoch(), start);
    EXPECT_EQ(told.used, (Shape{1000, 1 << 30, 1 << 30}));
    node.says("u1", NodeSays::kRunning);
    w.synced(node);
    EXPECT_EQ(w.send("u1", Stop{start, StopReason::kUser, kNever}), "changed");
    const auto version = told.version;
    told = w.synced(node);
    EXPECT_GT(told.version, version);
    EXPECT_EQ(desired(told).desired(), node::v1::DESIRED_STOP);
    node.says("u1", NodeSays::kStopped);
    told = w.synced(node);
    EXPECT_TRUE(told.slots.empty());
    EXPECT_EQ(told.used, Shape{});
  }
  const Types one = {"SlotPlanned",    "SlotOffered",  "SlotReserved",
                     "SandboxStarted", "SlotStopping", "SlotReleased"};
  Types both = one;
  both.insert(both.end(), one.begin(), one.end());
  EXPECT_EQ(w.types("u1"), both);
  w.expect_rebuilds("u1");
  for (const char* table : {"deadlines", "waiting_starts", "desired_slots"})
    EXPECT_EQ(w.count(table), 0) << table;
}

TEST(Flows, ASyncThatSaysNothingNewCommitsNothing) {
  World w;
  Node node;
  w.synced(node);
  running(w, node, "u1");
  const auto before = w.positions();
  const auto version = node.sync.seen_version;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(w.synced(node).version, version);
  EXPECT_EQ(w.positions(), before);
}

TEST(Flows, AFundedStartWaitsForAMachineAndTakesTheFirst) {
  World w;
  w.plan("u1");
  w.send("u1", Fund{1});
  EXPECT_EQ(w.phase("u1"), Phase::kFunded);
  EXPECT_EQ(w.count("waiting_starts"), 1);
  Node foreign("m9");
  foreign.sync.org = OrgId("other");
  w.synced(foreign);
  w.run_placer();
  EXPECT_EQ(w.phase("u1"), Phase::kFunded) << "another organization's machine is no room";
  Node node;
  const int told = w.room_came;
  w.synced(node);
  EXPECT_GT(w.room_came, told);
  w.run_placer();
  EXPECT_EQ(w.phase("u1"), Phase::kReserved);
  EXPECT_EQ(w.count("waiting_starts"), 0);
  w.expect_rebuilds("u1");
}

TEST(Flows, AFullMachineTakesNoMoreAndFreedRoomGoesToTheOldest) {
  World w;
  Node node("m1", 3);
  w.synced(node);
  std::vector<std::pair<std::string, SlotCommand>> fundings;
  for (int i = 0; i < 6; ++i) {
    const auto uid = "u" + std::to_string(i);
    w.plan(uid);
    fundings.emplace_back(uid, Fund{1});
  }
  w.send_together(fundings);  // one batch, one snapshot: the heads decide
  auto told = w.synced(node);
  EXPECT_EQ(told.slots.size(), 3u);
  EXPECT_EQ(told.used, told.capacity);
  EXPECT_EQ(w.count("waiting_starts"), 3);
  w.run_placer();
  EXPECT_EQ(w.count("waiting_starts"), 3);
  const auto gone = told.slots.front().sandbox.str();
  w.send(gone, Delete{});
  w.synced(node);
  node.says(gone, NodeSays::kStopped);
  w.synced(node);
  w.run_placer();
  EXPECT_EQ(w.count("waiting_starts"), 2);
  EXPECT_EQ(w.phase("u3"), Phase::kReserved);
  told = w.synced(node);
  EXPECT_EQ(told.used, told.capacity);
}

Offered offered(World& w, const std::string& uid, int64_t cpus, int64_t start = 1) {
  auto what = order(uid, start);
  what.shape = {cpus * 1000, cpus << 30, cpus << 30};
  EXPECT_EQ(w.send(uid, PlanStart{what}), "changed");
  const auto event = w.last_event(uid);
  EXPECT_TRUE(std::holds_alternative<Offered>(event));
  return std::get<Offered>(event);
}

TEST(Flows, BeforeTheFirstPurchaseLargeStartsGetMachinesOfTheirOwn) {
  World w(fresh_database(),
          {.types = {{"m2", {2000, 2LL << 30, 2LL << 30}}, {"m4", {4000, 4LL << 30, 4LL << 30}}}});
  Node first("m1", 8), second("m2", 8);
  w.synced(first);
  w.synced(second);
  EXPECT_EQ(offered(w, "small", 3).sharing, "Shared") << "up to 3 vCPU";
  const auto large = offered(w, "large", 4);
  EXPECT_EQ(large.sharing + " " + large.machine_type, "Own m4");
  w.send("small", Fund{1});
  w.send("large", Fund{1});
  const auto shared = w.slot("small").machine, own = w.slot("large").machine;
  EXPECT_NE(shared, own) << "a machine of its own is an empty one";
  EXPECT_EQ(w.rows->machine(own)->value().used, first.sync.capacity) << "and stays so";
  w.expect_rebuilds("large");

  offered(w, "beside", 2);
  w.send("beside", Fund{1});
  EXPECT_EQ(w.slot("beside").machine, shared);
  offered(w, "late", 4);
  w.send("late", Fund{1});
  EXPECT_EQ(w.phase("late"), Phase::kFunded) << "3 vCPU are free, and no machine is empty";
  Node& node = own == MachineId("m1") ? first : second;
  w.send("large", Delete{});
  w.synced(node);
  node.says("large", NodeSays::kStopped);
  w.synced(node);
  w.run_placer();
  EXPECT_EQ(w.slot("late").machine, own);

  EXPECT_TRUE(w.log->run(std::vector{w.slots.first_purchase(OrgId("acme"), w.clock.now())}).front());
  EXPECT_TRUE(w.log->run(std::vector{w.slots.first_purchase(OrgId("acme"), w.clock.now())}).front());
  EXPECT_EQ(offered(w, "paid", 4).sharing, "Shared");
}

TEST(Flows, NobodyWaitsBehindAnotherOrganizationsQueue) {
  World w;
  ASSERT_TRUE(w.pool.with_tx([](pg::Tx& tx) -> Result<void> {
    tx.exec0(
        "INSERT INTO waiting_starts (sandbox_uid, start, org, cpu_milli, memory_bytes, disk_bytes, since_us) "
        "SELECT 'other-' || n, 1, 'other', 1, 1, 1, n FROM generate_series(1, 2000) n");
    return {};
  }));
  w.plan("u1");
  w.send("u1", Fund{1});
  EXPECT_EQ(w.phase("u1"), Phase::kFunded);
  Node node;
  w.synced(node);
  w.run_placer();
  EXPECT_EQ(w.phase("u1"), Phase::kReserved);
}

TEST(Flows, TooManyWaitingStartsLapseAtOnce) {
  World w;
  w.slots.waiting_count(100);
  w.plan("u1");
  w.send("u1", Fund{1});
  EXPECT_EQ(std::get<Lapsed>(w.last_event("u1")).reason, LapseReason::kNoCapacity);
}

TEST(Flows, OffersEndByTheirDeadline) {
  World w;
  w.plan("unfunded");
  w.plan("funded");
  w.send("funded", Fund{1});
  EXPECT_EQ(w.count("deadlines"), 2);
  w.clock.advance(Seconds(59));
  w.expiry.step();
  EXPECT_EQ(w.count("deadlines"), 2);
  w.clock.advance(Seconds(1));
  w.expiry.step();
  EXPECT_EQ(w.count("deadlines"), 0);
  EXPECT_EQ(w.count("waiting_starts"), 0);
  EXPECT_EQ(std::get<Lapsed>(w.last_event("unfunded")).reason, LapseReason::kExpired);
  EXPECT_EQ(std::get<Lapsed>(w.last_event("funded")).reason, LapseReason::kNoCapacity);
  EXPECT_EQ(w.send("unfunded", Fund{1}), "") << "a funding after the lapse yields nothing";
  EXPECT_EQ(w.plan("unfunded", 2), "changed");
  w.expect_rebuilds("unfunded");
}

TEST(Flows, ADeleteOvertakesAStop) {
  World w;
  Node node;
  w.synced(node);
  running(w, node, "u1");
  w.send("u1", Stop{1, StopReason::kUser, kNever});
  const auto stop = w.synced(node);
  w.send("u1", Delete{});
  const auto told = w.synced(node);
  EXPECT_GT(told.version, stop.version);
  EXPECT_EQ(desired(told).stop_reason(), common::v1::STOP_REASON_DELETE);
}

TEST(Flows, NoNewStartsWithoutALease) {
  World w;
  Node node;
  w.synced(node);
  running(w, node, "u1");
  w.clock.advance(Seconds(31));
  w.plan("u2");
  w.send("u2", Fund{1});
  w.run_placer();
  EXPECT_EQ(w.phase("u2"), Phase::kFunded);
  EXPECT_EQ(w.phase("u1"), Phase::kStarted) << "the end of a lease releases nothing";
  const int told = w.room_came;
  w.synced(node);
  EXPECT_GT(w.room_came, told) << "a machine that returns is room";
  w.run_placer();
  EXPECT_EQ(w.phase("u2"), Phase::kReserved);
}

TEST(Flows, ARestartForgetsNothing) {
  const auto url = fresh_database();
  Node node;
  int64_t version = 0;
  {
    World w(url);
    w.synced(node);
    running(w, node, "u1");
    w.plan("u2");
    w.send("u2", Fund{1});
    version = w.synced(node).version;
    w.plan("u3");
  }
  World w(url);
  w.send("u3", Fund{1});
  EXPECT_EQ(w.phase("u3"), Phase::kFunded) << "machines count again when they have synced";
  node.forgets("u1");
  EXPECT_GT(w.synced(node).version, version) << "what it had heard of is known from the version alone";
  EXPECT_EQ(std::get<Released>(w.last_event("u1")).failure, "Crashed");
  w.run_placer();
  EXPECT_EQ(w.phase("u3"), Phase::kReserved);
  EXPECT_EQ(w.count("deadlines"), 0);
}

// Two machines, many Sandboxes, and everybody at once: stops and fundings that touch both machines, syncs,
// the placer.
TEST(Flows, ManyThreadsNeverOverCommitNorLoseASlot) {
  World w;
  Node nodes[2] = {Node("m1", 4), Node("m2", 4)};
  for (auto& node : nodes) w.synced(node);
  constexpr int kSandboxes = 24, kRounds = 3;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (auto& node : nodes)
    threads.emplace_back([&] {
      while (!done) {
        const auto told = w.synced(node);
        EXPECT_TRUE(told.used.fits_in(told.capacity));
        for (size_t i = 0; i < told.slots.size(); ++i)
          node.says(told.slots[i].sandbox.str(), desired(told, i).desired() == node::v1::DESIRED_STOP
                                                     ? NodeSays::kStopped
                                                     : NodeSays::kRunning);
        w.run_placer();
      }
    });
  std::vector<std::thread> drivers;
  for (int t = 0; t < 2; ++t)
    drivers.emplace_back([&, t] {
      for (int64_t start = 1; start <= kRounds; ++start) {
        std::vector<std::pair<std::string, SlotCommand>> plans, fundings, stops;
        for (int i = t; i < kSandboxes; i += 2) {
          const auto uid = "u" + std::to_string(i);
          plans.emplace_back(uid, PlanStart{order(uid, start)});
          fundings.emplace_back(uid, Fund{start});
          stops.emplace_back(uid, Stop{start, StopReason::kUser, kNever});
        }
        auto again = [&](const auto& batch) {  // as the bus does when the database says so
          for (auto out = w.send_together(batch); out.front() == "DatabaseUnavailable";)
            out = w.send_together(batch);
        };
        again(plans);
        again(fundings);
        again(stops);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        for (const auto& [uid, command] : stops)
          while (w.phase(uid) != Phase::kNone && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
      }
    });
  for (auto& driver : drivers) driver.join();
  done = true;
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < kSandboxes; ++i) {
    const auto uid = "u" + std::to_string(i);
    EXPECT_EQ(w.phase(uid), Phase::kNone) << uid;
    EXPECT_EQ(w.slot(uid).order.start, kRounds) << uid;
    w.expect_rebuilds(uid);
  }
  for (const auto& machine : *w.rows->machines()) EXPECT_EQ(machine.used, Shape{}) << machine.machine.str();
  for (const char* table : {"deadlines", "waiting_starts", "desired_slots"})
    EXPECT_EQ(w.count(table), 0) << table;
}

}  // namespace
}  // namespace nodus::scheduler::test
