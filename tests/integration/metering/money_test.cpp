// Money ends: by the clock, in rows, under concurrency and through crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

JudgeOffer offer_of(int i) {
  return {
      {SandboxUid("u" + std::to_string(i)), 1, 0, OrgId("acme"), ProjectId("web")}, "box", {1000, 0, 0}, {}};
}

TEST(Money, AThousandConcurrentOffersFundExactlyK) {
  constexpr int kOffers = 1'000;
  constexpr int kFundable = 7;
  World world;
  world.credit((Money::from_pico(kFundable * 675 + 674)).to_decimal(), "g1");
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&world, caller] {
      std::vector<eventlog::Work> works;
      for (int i = caller; i < kOffers; i += 8) works.push_back(world.works.on_start(offer_of(i)));
      for (size_t from = 0; from < works.size(); from += 16) {
        const auto part = std::span(works).subspan(from, std::min<size_t>(16, works.size() - from));
        for (const auto& answer : world.log->run(part)) EXPECT_TRUE(answer) << answer.error().message;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(world.count("SELECT count(*) FROM events WHERE type LIKE '%.StartFunded'"), kFundable);
  EXPECT_EQ(world.count("SELECT count(*) FROM events WHERE type LIKE '%.StartRefused'"), kOffers - kFundable);
  EXPECT_EQ(world.count("SELECT funded FROM accounts"), kFundable);
  EXPECT_TRUE(world.audited());
}

TEST(Money, AThousandConcurrentOffersAgainstABudgetFundExactlyK) {
  constexpr int kOffers = 1'000;
  constexpr int kFundable = 7;
  World world;
  world.credit("1.00", "g1");
  world.put_budget("b", Money::from_pico(kFundable * 675 + 674));
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&world, caller] {
      std::vector<eventlog::Work> works;
      for (int i = caller; i < kOffers; i += 8) works.push_back(world.works.on_start(offer_of(i)));
      for (size_t from = 0; from < works.size(); from += 16) {
        const auto part = std::span(works).subspan(from, std::min<size_t>(16, works.size() - from));
        for (const auto& answer : world.log->run(part)) EXPECT_TRUE(answer) << answer.error().message;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(world.count("SELECT count(*) FROM events WHERE type LIKE '%.StartFunded'"), kFundable);
  EXPECT_EQ(world.count("SELECT count(*) FROM events WHERE type LIKE '%.StartRefused'"), kOffers - kFundable);
  EXPECT_EQ(world.count("SELECT funded FROM project_spend"), kFundable);
  EXPECT_TRUE(world.audited());
}

TEST(Money, TheBrakeHoldsEveryStopUntilItIsOff) {
  World world;
  world.credit("0.000000001000", "g1");
  world.put_budget("b", Money::from_pico(950));
  world.consume();
  world.scheduler.offer("u1", 1, "0.000000000900");
  world.scheduler.reserve("u1", 1, 10);
  world.await_all();
  world.text(
      "INSERT INTO brake_changes (engaged, reason, author, at_us) VALUES (true, 'why', 'me', 0) RETURNING "
      "id");
  world.at(300);
  world.run_deadlines();
  EXPECT_TRUE(world.deadlines->braked());
  EXPECT_THAT(world.events("charge/u1"), ElementsAre("StartFunded", "ChargeOpened"));
  EXPECT_FALSE(world.audited());
  world.text(
      "INSERT INTO brake_changes (engaged, reason, author, at_us) VALUES (false, 'why', 'me', 0) RETURNING "
      "id");
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), Contains("StopOrdered"));
  world.scheduler.release("u1", 1, 10, 11, 301, 302);
  world.await_all();
  EXPECT_EQ(world.text("SELECT sum(amount) FROM bill_lines"), "0.000000000900");
  EXPECT_TRUE(world.audited());
}

TEST(Money, ARaisedCapIsArmedAnew) {
  World world;
  world.credit("1.00", "g1");
  world.consume();
  world.scheduler.offer("u1", 1, "0.000000000900");
  world.scheduler.reserve("u1", 1, 10);
  world.await_all();
  world.at(100);
  world.scheduler.raise("u1", 1, "0.000000001800", 100);
  world.await_all();
  world.at(150);
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), ElementsAre("StartFunded", "ChargeOpened", "CapRaised"));
  world.at(210);
  world.run_deadlines();
  EXPECT_EQ(world.events("charge/u1").back(), "StopOrdered");
  EXPECT_TRUE(world.audited());
}

// 900 pico pay 100 seconds from 10 on.
TEST(Money, ABudgetStopsWhatRunsAtItsLimit) {
  World world;
  world.credit("1.00", "g1");
  world.put_budget("b", Money::from_pico(900));
  world.consume();
  world.scheduler.offer("u1", 1);
  world.scheduler.reserve("u1", 1, 10);
  world.await_all();
  EXPECT_EQ(world.count("SELECT due_us / 1000000 FROM budget_deadlines") - kT0, 60);
  world.at(109.9);
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), Not(Contains("StopOrdered")));
  world.at(110);
  world.run_deadlines();
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"),
              ElementsAre("StartFunded", "ChargeOpened", "PaidUntil", "StopOrdered"));
  EXPECT_THAT(world.events("budget/web"), Contains("BudgetExhausted"));
  EXPECT_TRUE(world.audited());
  world.scheduler.release("u1", 1, 10, 11, 111, 115);
  world.scheduler.offer("u1", 2);
  world.await_all();
  EXPECT_EQ(world.text("SELECT sum(amount) FROM bill_lines"), "0.000000000900");
  EXPECT_THAT(world.events("charge/u1"), Contains("StartRefused"));
  EXPECT_EQ(world.text("SELECT spent FROM project_spend"), "0.000000000900");
  EXPECT_TRUE(world.audited());
  world.put_budget("b", Money::from_pico(9'000), false);
  EXPECT_EQ(world.events("budget/web").back(), "FundsChanged");
}

// 1,000 pico pay 111 seconds from 10 on: stops at 106, the end at 121.
void run_out(World& world) {
  world.credit("0.000000001000", "g1");
  world.consume();
  world.scheduler.offer("u1", 1);
  world.scheduler.reserve("u1", 1, 10);
  world.scheduler.started("u1", 1, 10, 11);
  world.await_all();
}

TEST(Money, TheBalanceOrdersOneStopAndEndsToTheSecond) {
  World world;
  run_out(world);
  EXPECT_EQ(world.count("SELECT due_us / 1000000 FROM balance_deadlines") - kT0, 106);
  world.at(105.9);
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), Not(Contains("StopOrdered")));
  world.at(106);
  world.run_deadlines();
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"),
              ElementsAre("StartFunded", "ChargeOpened", "InstantsNoted", "StopOrdered"));
  EXPECT_EQ(world.count("SELECT due_us FROM balance_deadlines"), (kT0 + 121) * 1'000'000 + 1);
  world.at(121.5);
  world.run_deadlines();
  EXPECT_THAT(world.events("account/acme"), Contains("BalanceExhausted"));
  EXPECT_EQ(world.events("charge/u1").back(), "PaidUntil");  // the stop was ordered long before
  EXPECT_EQ(world.count("SELECT paid_until_s FROM starts") - kT0, 121);
  EXPECT_EQ(world.count("SELECT count(*) FROM balance_deadlines"), 0);
  world.scheduler.release("u1", 1, 10, 11, 106, 125);
  world.await_all();
  EXPECT_EQ(
      world.text(
          "SELECT string_agg(kind || ' ' || from_s - 1800000000 || ' ' || amount || ' ' || waived, ', '"
          " ORDER BY ordinal) FROM bill_lines"),
      "Starting 10 0.000000000009 false, Running 11 0.000000000855 false, Stopping 106 0.000000000135 false, "
      "Stopping 121 0.000000000000 true");
  EXPECT_TRUE(world.audited());
}

TEST(Money, ATopUpInTimeDisarms) {
  World world;
  run_out(world);
  world.at(100);
  world.credit("1.00", "g2");
  world.at(300);
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), Not(Contains("StopOrdered")));
  EXPECT_TRUE(world.audited());
}

TEST(Money, ADeadlineWaitsForTheBusButNotForEver) {
  World world;
  run_out(world);
  world.stop_consumer();
  world.at(110);
  world.watermark.reached(to_instant(kT0 + 100));
  ASSERT_TRUE(world.deadlines->run_due());
  EXPECT_THAT(world.events("charge/u1"), Not(Contains("StopOrdered")));
  world.at(106 + 61);
  ASSERT_TRUE(world.deadlines->run_due());
  EXPECT_THAT(world.events("charge/u1"), Contains("StopOrdered"));
}

TEST(Money, ACapStopsAtItsLimit) {
  World world;
  world.credit("1.00", "g1");
  world.consume();
  world.scheduler.offer("u1", 1, "0.000000000900");
  world.scheduler.reserve("u1", 1, 10);
  world.await_all();
  world.at(109.9);
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), Not(Contains("StopOrdered")));
  world.at(110);
  world.run_deadlines();
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"),
              ElementsAre("StartFunded", "ChargeOpened", "CapReached", "StopOrdered"));
  EXPECT_EQ(world.count("SELECT count(*) FROM starts WHERE cap_due_s IS NOT NULL"), 0);
  world.scheduler.release("u1", 1, 10, 11, 111, 115);
  world.scheduler.offer("u1", 2, "0.000000000900");
  world.await_all();
  EXPECT_EQ(world.text("SELECT sum(amount) FROM bill_lines"), "0.000000000900");
  EXPECT_THAT(world.events("charge/u1"), Contains("StartRefused"));
  EXPECT_TRUE(world.audited());
}

// What an idle stop hides is judged again once that stop is declined: a stop that is due, and one that was
// ordered and perhaps dropped because the Sandbox was stopping already.
TEST(Money, ADeclinedStopArmsTheBalanceAgain) {
  World world;
  run_out(world);
  world.scheduler.stopping("u1", 1, 10, 11, 105);
  world.await_all();
  world.at(107);
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), Not(Contains("StopOrdered")));
  world.scheduler.decline("u1", 1, 106);
  world.await_all();
  EXPECT_EQ(world.count("SELECT count(*) FROM starts WHERE stopping_us IS NULL"), 1);
  world.run_deadlines();
  const std::vector<std::string> ordered = {"StartFunded",   "ChargeOpened", "InstantsNoted",
                                            "InstantsNoted", "StopDeclined", "StopOrdered"};
  EXPECT_EQ(world.events("charge/u1"), ordered);
  world.at(109);
  world.scheduler.stopping("u1", 1, 10, 11, 108);
  world.scheduler.decline("u1", 1, 108.5);
  world.await_all();
  world.run_deadlines();
  EXPECT_EQ(world.count("SELECT count(*) FROM events WHERE type LIKE '%.StopOrdered'"), 2);
  world.scheduler.release("u1", 1, 10, 11, 112, 113);
  world.await_all();
  EXPECT_EQ(world.text("SELECT string_agg(kind || ' ' || from_s - 1800000000, ', ' ORDER BY ordinal)"
                       " FROM bill_lines"),
            "Starting 10, Running 11, Stopping 112");
  EXPECT_TRUE(world.audited());
}

TEST(Money, ADeclinedStopArmsACapThatWasReachedMeanwhile) {
  World world;
  world.credit("1.00", "g1");
  world.consume();
  world.scheduler.offer("u1", 1, "0.000000000900");
  world.scheduler.reserve("u1", 1, 10);
  world.scheduler.stopping("u1", 1, 10, 11, 109);
  world.await_all();
  world.at(110);
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), Contains("CapReached"));
  EXPECT_THAT(world.events("charge/u1"), Not(Contains("StopOrdered")));
  world.at(112);
  world.scheduler.decline("u1", 1, 111);
  world.scheduler.started("u1", 1, 10, 11);
  world.await_all();
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), Contains("StopOrdered"));
  EXPECT_EQ(world.count("SELECT count(*) FROM starts WHERE cap_due_s IS NOT NULL"), 0);
  EXPECT_TRUE(world.audited());
}

TEST(Money, TheThreadOrdersStopsByItself) {
  World world;
  run_out(world);
  world.log->on_commit([&](const auto&) { world.deadlines->wake(); });
  world.deadlines->start();
  world.at(107);
  EXPECT_TRUE(eventually([&] { return world.count("SELECT count(*) FROM starts WHERE stop_ordered") == 1; }));
  world.deadlines.reset();
  world.log->on_commit(nullptr);
}

// ---- crashes: a child consumes and is killed at a fault point; the parent goes on where it ended

void crash_child(World& world, const std::string& failpoint) {
  const std::string url = "METERING_TEST_URL=" + world.url;
  const std::string point = "NODUS_FAILPOINT=" + failpoint;
  const pid_t pid = fork();
  if (pid == 0) {
    putenv(const_cast<char*>(url.c_str()));
    putenv(const_cast<char*>(point.c_str()));
    execl("/proc/self/exe", "child", "--gtest_filter=Child.DISABLED_Consumes",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << failpoint << ": status " << status;
}

TEST(Child, DISABLED_Consumes) {
  World world{std::string(getenv("METERING_TEST_URL"))};
  world.consume();
  eventually([] { return false; }, Seconds(60));
}

TEST(Money, AKilledConsumerLosesAndDoublesNothing) {
  World world;
  world.credit("1.00", "g1");
  constexpr int kSandboxes = 60;
  for (int round = 1; round <= 2; ++round)
    for (int i = 0; i < kSandboxes; ++i) {
      const auto uid = "u" + std::to_string(i);
      const double from = round * 1'000;
      world.scheduler.offer(uid, round);
      world.scheduler.reserve(uid, round, from);
      world.scheduler.started(uid, round, from, from + 1.5);
      world.scheduler.release(uid, round, from, from + 1.5, from + 10, from + 10 + i + 0.25);
    }
  crash_child(world, "bus.before_commit=kill:2");
  crash_child(world, "bus.after_commit=kill:2");
  world.consume();
  world.await_all();
  // Each start: 11 + i seconds at 9.
  int64_t expected = 0;
  for (int i = 0; i < kSandboxes; ++i) expected += 2 * 9 * (11 + i);
  EXPECT_EQ(world.count("SELECT (sum(amount) * 1000000000000)::bigint FROM bill_lines"), expected);
  EXPECT_EQ(world.count("SELECT count(*) FROM postings WHERE kind = 'Charge'"), 2 * kSandboxes);
  EXPECT_EQ(world.count("SELECT count(*) FROM parked"), 0);
  EXPECT_TRUE(world.audited());
}

}  // namespace
}  // namespace nodus::metering::test
