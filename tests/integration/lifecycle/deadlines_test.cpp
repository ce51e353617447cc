// Deadlines on a real PostgreSQL: never early, none lost by a restart, a lost word or a failed commit.
#include "services/lifecycle/app/deadlines.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "libs/base/random.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/app/works.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::lifecycle {
namespace {

class DeadlinesOnPostgres : public ::testing::Test {
 protected:
  DeadlinesOnPostgres()
      : pool_({.url = test::fresh_database(test::migrations_of("lifecycle"), "lifecycle"),
               .schema = "lifecycle",
               .application_name = "test"},
              8),
        log_(*eventlog::make_postgres_log(clock_, pool_, 4)),
        batcher_(*log_, {}) {
    EXPECT_TRUE(eventlog::ensure_ranges(pool_).has_value());
  }

  // A Sandbox that is Running since `started`, with these limits.
  SandboxUid running(Instant started, Micros idle, Micros lifetime = std::chrono::hours(24)) {
    const SandboxUid uid(random_uuid());
    SandboxSpec spec{.image = "nodus/busybox", .idle_timeout = idle, .max_lifetime = lifetime};
    SandboxCreated created{.uid = uid,
                           .org = OrgId("acme"),
                           .project = ProjectId("web"),
                           .name = "s" + uid.str(),
                           .spec = spec,
                           .image_digest = "sha256:abc",
                           .labels = {},
                           .annotations = {},
                           .at = started};
    EXPECT_TRUE(batcher_.run(create_sandbox({created, true}, SandboxUid(), {started, {}}, "", "")));
    run(uid, RecordSlot{{1, 1, "machine-1", "127.0.0.1:1", started}});
    run(uid, RecordRunning{{1, "runsc", started}});
    return uid;
  }
  void run(const SandboxUid& uid, SandboxCommand command) {
    EXPECT_TRUE(batcher_.run(change_sandbox(uid, std::move(command), {clock_.now(), {}})).has_value());
  }
  Phase phase(const SandboxUid& uid) {
    return SandboxCodec::decode_state(log_->head(sandbox_stream(uid))->state)->phase;
  }
  bool eventually(const std::function<bool()>& condition) {
    const SystemClock real;
    const auto end = real.boot() + Seconds(30);
    while (!condition() && real.boot() < end) std::this_thread::sleep_for(Millis(1));
    return condition();
  }
  std::unique_ptr<Deadlines> start(DeadlineOptions options = {.poll = Millis(5)}) {
    auto made = std::make_unique<Deadlines>(batcher_, pool_, clock_, options);
    made->start();
    return made;
  }
  // The service as it runs: told of every commit.
  void hear(Deadlines& deadlines) {
    log_->on_commit([&](const std::vector<eventlog::Recorded>& events) { deadlines.changed(events); });
  }

  ManualClock clock_;
  pg::Pool pool_;
  std::unique_ptr<eventlog::EventLog> log_;
  eventlog::Batcher batcher_;
};

TEST_F(DeadlinesOnPostgres, IdleAndLifetimeFireAtTheirTimeAndNotBefore) {
  Deadlines deadlines(batcher_, pool_, clock_, {.poll = Millis(5)});
  hear(deadlines);
  deadlines.start();
  const auto idle = running(clock_.now(), std::chrono::minutes(5));
  const auto witness = running(clock_.now(), std::chrono::minutes(4));
  const auto mortal = running(clock_.now(), Seconds(0), std::chrono::minutes(10));
  clock_.advance(std::chrono::minutes(5) - Micros(1));
  EXPECT_TRUE(eventually([&] { return phase(witness) == Phase::kStopping; }));
  EXPECT_EQ(phase(idle), Phase::kRunning);
  clock_.advance(Millis(1));  // ticks are milliseconds, rounded up
  EXPECT_TRUE(eventually([&] { return phase(idle) == Phase::kStopping; }));
  EXPECT_EQ(phase(mortal), Phase::kRunning);
  clock_.advance(std::chrono::minutes(5));
  EXPECT_TRUE(eventually([&] { return phase(mortal) == Phase::kTerminating; }));
}

TEST_F(DeadlinesOnPostgres, WhatIsDueAfterARestartIsDecidedLifetimesFirst) {
  std::vector<SandboxUid> idle, mortal;
  for (int i = 0; i < 20; ++i) idle.push_back(running(clock_.now(), std::chrono::minutes(1)));
  for (int i = 0; i < 20; ++i) mortal.push_back(running(clock_.now(), Seconds(0), std::chrono::minutes(90)));
  clock_.advance(std::chrono::hours(2));
  std::mutex mutex;
  std::vector<std::string> order;
  log_->on_commit([&](const std::vector<eventlog::Recorded>& events) {
    std::lock_guard lock(mutex);
    for (const auto& event : events) order.push_back(event.stream);
  });
  // The rate lets a twentieth of it pass at a time, so that order can be seen; the manual clock gives it.
  auto deadlines = start({.poll = Millis(1), .rate_per_s = 20});
  EXPECT_TRUE(eventually([&] {
    clock_.advance(Millis(50));
    std::lock_guard lock(mutex);
    return order.size() >= 60;  // a delete is two events here
  }));
  deadlines->stop();
  for (const auto& uid : mortal) {
    const auto at = std::find(order.begin(), order.end(), sandbox_stream(uid)) - order.begin();
    EXPECT_LT(at, 50) << "behind idle stops";  // a few are decided side by side
  }
  for (const auto& uid : idle) EXPECT_EQ(phase(uid), Phase::kStopping);
}

TEST_F(DeadlinesOnPostgres, AnotherReplicasDeadlineFiresWithoutAWord) {
  auto deadlines = start();  // hears of no commit
  const auto uid = running(clock_.now(), std::chrono::minutes(1));
  clock_.advance(std::chrono::minutes(1));
  EXPECT_TRUE(eventually([&] { return phase(uid) == Phase::kStopping; }));
}

TEST_F(DeadlinesOnPostgres, AMovedDeadlineDoesNotFireAtItsOldTime) {
  const auto uid = running(clock_.now(), std::chrono::minutes(1));
  auto deadlines = start();  // armed, and told nothing of what follows
  const auto witness = running(clock_.now(), std::chrono::minutes(1));
  run(uid, RequestStop{StopReason::kIdle, {}});
  run(uid, RecordStopDeclined{{1, clock_.now() + Seconds(30)}});
  clock_.advance(std::chrono::minutes(1));
  EXPECT_TRUE(eventually([&] { return phase(witness) == Phase::kStopping; }));
  EXPECT_EQ(phase(uid), Phase::kRunning) << "it has half a minute left";
  clock_.advance(Seconds(30));
  EXPECT_TRUE(eventually([&] {
    clock_.advance(Millis(100));  // it fired once in vain: the second try comes a second later
    return phase(uid) == Phase::kStopping;
  }));
}

TEST_F(DeadlinesOnPostgres, ADatabaseThatRestartsLosesNoDeadline) {
  const auto uid = running(clock_.now(), std::chrono::minutes(1));
  auto deadlines = start();
  test::crash_and_restart_postgres();
  clock_.advance(std::chrono::minutes(1));
  EXPECT_TRUE(eventually([&] {
    clock_.advance(Millis(20));
    const auto head = log_->head(sandbox_stream(uid));
    return head && SandboxCodec::decode_state(head->state)->phase == Phase::kStopping;
  }));
}

TEST_F(DeadlinesOnPostgres, RowsOfOtherReleasesAreLeftAlone) {
  EXPECT_TRUE(pool_
                  .with_tx([](pg::Tx& tx) -> Result<void> {
                    tx.exec("INSERT INTO deadlines VALUES ('sandbox/" + random_uuid() +
                            "', 'comet', 1), ('sandbox/none', 'idle', 1), ('other/x', 'idle', 1)");
                    return {};
                  })
                  .has_value());
  const auto uid = running(clock_.now(), std::chrono::minutes(1));
  auto deadlines = start();
  clock_.advance(std::chrono::minutes(1));
  EXPECT_TRUE(eventually([&] { return phase(uid) == Phase::kStopping; }));
  deadlines->stop();
  const auto left = pool_.with_tx([](pg::Tx& tx) -> Result<int> {
    return tx.exec1("SELECT count(*) FROM deadlines WHERE due_us = 1")[0].as<int>();
  });
  EXPECT_EQ(*left, 3);
}

}  // namespace
}  // namespace nodus::lifecycle
