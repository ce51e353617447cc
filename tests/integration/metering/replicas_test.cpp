// Several replicas of metering on one database, and a metering that dies: nothing is funded twice, lost or
// doubled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "services/metering/adapters/postgres/ledger.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

constexpr int kOffers = 1'000;

JudgeOffer offer_of(int i) {
  return {{SandboxUid("u" + std::to_string(i)), 1, 0, OrgId("acme"), ProjectId("acme/web")},
          "box",
          {1000, 0, 0},
          {}};
}

// As the consumer does: what was busy is tried again.
Result<std::string> run(World& world, const eventlog::Work& work) {
  for (int attempt = 0;; ++attempt) {
    auto answer = world.log->run(std::span(&work, 1)).front();
    if (answer || !retryable(answer.error().code) || attempt == 100) return answer;
  }
}

class Replicas : public ::testing::TestWithParam<int> {};

TEST_P(Replicas, AThousandStartsAgainstCreditForSevenFundExactlySeven) {
  constexpr int kFundable = 7;
  World first;
  first.credit((Money::from_pico(kFundable * 675 + 674)).to_decimal(), "g1");
  std::vector<std::unique_ptr<World>> others;
  std::vector<World*> worlds{&first};
  while (std::cmp_less(worlds.size(), GetParam())) {
    others.push_back(std::make_unique<World>(first.url));
    worlds.push_back(others.back().get());
  }
  constexpr int kCallers = 9;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller)
    callers.emplace_back([&, caller] {
      World& world = *worlds[static_cast<size_t>(caller) % worlds.size()];
      for (int i = caller; i < kOffers; i += kCallers) {
        const auto answer = run(world, world.works.on_start(offer_of(i)));
        EXPECT_TRUE(answer) << answer.error().message;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(first.count("SELECT count(*) FROM events WHERE type LIKE '%.StartFunded'"), kFundable);
  EXPECT_EQ(first.count("SELECT count(*) FROM events WHERE type LIKE '%.StartRefused'"), kOffers - kFundable);
  EXPECT_EQ(first.count("SELECT funded FROM accounts"), kFundable);
  EXPECT_TRUE(first.audited());
}
INSTANTIATE_TEST_SUITE_P(Money, Replicas, testing::Values(1, 3));

TEST(Replicas, OnePaymentToldToThreeAtOnceIsPostedOnce) {
  World first;
  World second(first.url);
  World third(first.url);
  std::vector<std::thread> callers;
  std::atomic<int> posted{0};
  for (World* world : {&first, &second, &third})
    for (int i = 0; i < 3; ++i)
      callers.emplace_back([&posted, world] {
        const auto answer =
            run(*world, world->works.on_account({PostCredit{OrgId("acme"), "stripe/pi_1", "Purchase",
                                                            Money::parse("25.00").value(), "stripe"}}));
        ASSERT_TRUE(answer) << answer.error().message;
        if (*answer == "done") ++posted;
      });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(posted, 1);
  EXPECT_EQ(first.text("SELECT credits FROM accounts"), "25.000000000000");
  EXPECT_TRUE(first.audited());
}

// ---- crashes: a child does the work and is killed at a fault point; the parent goes on where it ended

constexpr int kCredits = 40;

std::string posted_by(World& world, int i) {
  const auto answer =
      run(world, world.works.on_account({PostCredit{OrgId("acme"), "p" + std::to_string(i), "Purchase",
                                                    Money::parse("1.00").value(), "ann"}}));
  return answer ? *answer : answer.error().message;
}

TEST(Child, DISABLED_PostsSealsAndConsumes) {
  World world{std::string(getenv("METERING_TEST_URL"))};
  world.clock.advance(std::chrono::duration_cast<Micros>(Seconds(5'000)));
  for (int i = 0; i < kCredits; ++i) {
    posted_by(world, i);
    if (i % 5 == 4) (void)seal_ledger(world.pool, world.clock.now());
  }
  world.consume();
  world.await_all();
  world.run_deadlines();
}

void crash_child(World& world, const std::string& failpoint) {
  const std::string url = "METERING_TEST_URL=" + world.url;
  const std::string point = "NODUS_FAILPOINT=" + failpoint;
  const pid_t pid = fork();
  if (pid == 0) {
    putenv(const_cast<char*>(url.c_str()));
    putenv(const_cast<char*>(point.c_str()));
    execl("/proc/self/exe", "child", "--gtest_filter=Child.DISABLED_PostsSealsAndConsumes",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << failpoint << ": status " << status;
}

TEST(Crashes, AMeteringKilledAtAnyStepLosesAndDoublesNothing) {
  World world;
  constexpr int kSandboxes = 40;
  for (int i = 0; i < kSandboxes; ++i) {
    const auto uid = "u" + std::to_string(i);
    world.scheduler.offer(uid, 1, i % 4 == 0 ? "0.000000000700" : "");
    world.scheduler.reserve(uid, 1, 1'000);
    world.scheduler.started(uid, 1, 1'000, 1'001.5);
    if (i % 4 != 0) world.scheduler.release(uid, 1, 1'000, 1'001.5, 1'010, 1'010 + i + 0.25);
  }
  for (const char* point :
       {"log.before_commit=kill:3", "log.after_commit=kill:5", "metering.before_rows=kill:4",
        "metering.before_ledger=kill:5", "metering.after_ledger=kill:4", "metering.seal=kill:2",
        "bus.before_commit=kill:1", "bus.after_commit=kill:1", "metering.judge=kill:1"})
    crash_child(world, point);
  for (int i = 0; i < kCredits; ++i) EXPECT_THAT(posted_by(world, i), testing::AnyOf("done", "repeated"));
  world.at(5'000);
  world.consume();
  world.await_all();
  world.run_deadlines();
  EXPECT_EQ(world.text("SELECT credits FROM accounts"), "40.000000000000");
  EXPECT_EQ(world.count("SELECT count(*) FROM events WHERE type LIKE '%.FirstPurchase'"), 1);
  EXPECT_EQ(world.count("SELECT count(*) FROM postings WHERE kind = 'Charge'"), kSandboxes - kSandboxes / 4);
  int64_t expected = 0;  // 9 a second from 1,000 on; what is capped still runs
  for (int i = 0; i < kSandboxes; ++i)
    if (i % 4 != 0) expected += 9 * (11 + i);
  EXPECT_EQ(world.count("SELECT (sum(amount) * 1000000000000)::bigint FROM bill_lines"), expected);
  EXPECT_EQ(world.count("SELECT count(*) FROM parked"), 0);
  (void)seal_ledger(world.pool, world.clock.now());
  EXPECT_TRUE(verify_ledger(world.pool, "")->faults.empty());
  EXPECT_TRUE(world.audited());
}

}  // namespace
}  // namespace nodus::metering::test
