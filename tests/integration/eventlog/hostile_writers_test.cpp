// Writers that hold transactions open, commit out of order, roll back or die between statements, beside the
// log's own: no reader skips, stalls or sees a stream out of order, and nobody waits without an end.
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "tests/integration/eventlog/postgres_subject.hpp"
#include "tests/integration/eventlog/raw_writer.hpp"

namespace nodus::eventlog::contract {
namespace {

// Two streams of one partition and one of another.
const std::string kStream = "s/1", kNeighbour = [] {
  for (int i = 2;; ++i)
    if (partition_of("s/" + std::to_string(i), 4) == partition_of("s/1", 4)) return "s/" + std::to_string(i);
}();
const std::string kElsewhere = [] {
  for (int i = 2;; ++i)
    if (partition_of("s/" + std::to_string(i), 4) != partition_of("s/1", 4)) return "s/" + std::to_string(i);
}();

struct HostileWriters : testing::Test {
  PostgresSubject subject{4, Millis(300), Millis(1'000)};
  EventLog& log = subject.log();
  RawWriter raw{subject.url};
  int64_t last() { return log.last_position(partition_of(kStream, 4)).value(); }
};

// Until some backend waits for a lock.
void await_lock_wait(const PostgresSubject& subject) {
  RawWriter watcher(subject.url);
  while (watcher.tx()
             .exec1("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                    " AND datname = current_database()")[0]
             .as<int>() == 0) {
    watcher.tx().exec("SELECT pg_stat_clear_snapshot()");
  }
}

TEST_F(HostileWriters, AHeldHeadDelaysOnlyItself) {
  log.run(std::vector{add(kStream), add(kNeighbour)});
  raw.lock(kStream);
  auto answers = log.run(std::vector{add(kNeighbour), add(kStream), add(kElsewhere)});
  EXPECT_TRUE(answers[0].has_value());
  EXPECT_EQ(answers[1].error().code, Code::kUnavailable);
  EXPECT_EQ(answers[1].error().reason, "StreamBusy");
  EXPECT_TRUE(answers[2].has_value());
  raw.roll_back();
  EXPECT_EQ(log.run(std::vector{add(kStream)})[0].value(), "2");
  expect_sound(log);
}

TEST_F(HostileWriters, AHeldHeadThatIsReleasedIsWaitedFor) {
  PostgresSubject patient;
  RawWriter holder(patient.url);
  holder.lock(kStream);
  std::jthread writer([&] { EXPECT_EQ(patient.log().run(std::vector{add(kStream)})[0].value(), "2"); });
  await_lock_wait(patient);
  holder.append(kStream);
  holder.commit();
}

TEST_F(HostileWriters, ANewHeadMadeByTwoAtOnceIsMadeOnce) {
  raw.lock(kStream);
  raw.append(kStream);
  std::jthread writer([&] { EXPECT_TRUE(log.run(std::vector{add(kElsewhere)})[0].has_value()); });
  writer.join();
  raw.commit();
  EXPECT_EQ(log.run(std::vector{add(kStream)})[0].value(), "2");
  expect_sound(log);
}

// All or nothing, and once: of a head that another makes meanwhile the first look is in vain.
TEST_F(HostileWriters, ABatchThatGoesTogetherIsDoneOnceThoughAHeadIsMadeMeanwhile) {
  PostgresSubject patient;
  ASSERT_TRUE(patient.pool
                  .with_tx([](pg::Tx& tx) -> Result<void> {
                    tx.exec("CREATE TABLE effects (n int)");
                    return {};
                  })
                  .has_value());
  RawWriter holder(patient.url);
  holder.lock(kElsewhere);  // made, not committed
  std::jthread together([&] {
    const auto answers =
        patient.log().run_together(std::vector{add(kStream), add(kElsewhere)},
                                   [](pg::Tx& tx) { tx.exec("INSERT INTO effects VALUES (1)"); });
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    EXPECT_EQ((*answers)[0].value(), "1");
    EXPECT_EQ((*answers)[1].value(), "2");
  });
  await_lock_wait(patient);
  holder.append(kElsewhere);
  holder.commit();
  together.join();
  EXPECT_EQ(patient.log().read_stream(kStream, 0, 10).value().size(), 1U);
  EXPECT_EQ(patient.log().read_stream(kElsewhere, 0, 10).value().size(), 2U);
  const auto effects = patient.pool.with_tx(
      [](pg::Tx& tx) -> Result<int> { return tx.exec1("SELECT count(*) FROM effects")[0].as<int>(); });
  EXPECT_EQ(effects.value(), 1);
  expect_sound(patient.log());
}

TEST_F(HostileWriters, AnUncommittedAppendIsInvisibleAndStopsNoReader) {
  log.run(std::vector{add(kNeighbour, 3)});
  raw.lock(kStream);
  raw.append(kStream);
  EXPECT_EQ(last(), 3);
  EXPECT_EQ(read_all(log).size(), 3u);
  EXPECT_TRUE(log.run(std::vector{add(kElsewhere)})[0].has_value());
  auto held =
      log.run(std::vector{add(kNeighbour)});  // the same partition: an answer, if only that it is busy
  EXPECT_EQ(held[0].error().code, Code::kUnavailable);
  raw.commit();
  EXPECT_EQ(log.run(std::vector{add(kNeighbour)})[0].value(), "4");
  EXPECT_EQ(last(), 5);
  expect_sound(log);
}

TEST_F(HostileWriters, ARollBackLeavesNoGap) {
  raw.lock(kStream);
  raw.append(kStream);
  raw.roll_back();
  EXPECT_EQ(log.run(std::vector{add(kNeighbour)})[0].value(), "1");
  EXPECT_EQ(last(), 1);
  EXPECT_EQ(log.head(kStream).value().version, 0);
  expect_sound(log);
}

TEST_F(HostileWriters, ADeadClientLeavesNothingAndHoldsNothing) {
  PostgresSubject patient;  // the server needs a moment to notice the closed socket
  RawWriter dying(patient.url);
  dying.lock(kStream);
  dying.append(kStream);
  dying.die();
  EXPECT_EQ(patient.log().run(std::vector{add(kStream)})[0].value(), "1");
  expect_sound(patient.log());
}

TEST_F(HostileWriters, AnIdleTransactionOfTheLogsOwnRoleIsEndedByTheServer) {
  pg::Connection idle(subject.options());
  auto forgotten = std::make_unique<pqxx::work>(idle.raw());
  forgotten->exec_params("SELECT log_lock_partition($1)", partition_of(kStream, 4));
  Result<std::string> answer = fail(Code::kUnavailable, "", "");
  for (int i = 0; i < 50 && !answer; ++i)
    answer = log.run(std::vector{add(kStream)})[0];  // each waits for the lock
  EXPECT_TRUE(answer.has_value());
}

TEST_F(HostileWriters, CommitsOutOfOrderAreReadInCommitOrder) {
  raw.lock(kStream);  // begins first …
  EXPECT_EQ(log.run(std::vector{add(kNeighbour)})[0].value(), "1");
  raw.append(kStream);  // … and commits last
  raw.commit();
  auto events = log.read(partition_of(kStream, 4), 0, 10).value();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].stream, kNeighbour);
  EXPECT_EQ(events[1].stream, kStream);
}

TEST_F(HostileWriters, AnOldSnapshotStallsNobody) {
  raw.tx().exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM events");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(log.run(std::vector{add(kStream)})[0].has_value());
  EXPECT_EQ(last(), 20);
}

TEST_F(HostileWriters, TheOldestTransactionIsSeen) {
  EXPECT_GT(log.ages().value().oldest_transaction.count(), 0);
}

TEST_F(HostileWriters, BatchesThatCrossDoNotDeadlock) {
  PostgresSubject patient;
  std::atomic<int> failures = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 15; ++i) {
        std::string a = "x/" + std::to_string(i), b = "y/" + std::to_string(i),
                    hot = "hot/" + std::to_string(t % 2);
        std::vector<Work> works = {add(a, 1, "key/" + a + std::to_string(t), "h"), add(hot), add(b)};
        if (t % 2 == 1) std::swap(works[0], works[2]);
        if (t == 3) {
          auto answers = patient.log().run_together(works, [](pg::Tx&) {});
          failures += !answers.has_value();
        } else {
          for (const auto& answer : patient.log().run(works)) failures += !answer.has_value();
        }
      }
    });
  threads.clear();
  EXPECT_EQ(failures, 0);
  expect_sound(patient.log());
}

// Reads a partition as a consumer does: one number to remember.
void tail(EventLog& log, int partition, const std::atomic<bool>& done, std::atomic<int64_t>& seen) {
  int64_t cursor = 0;
  std::map<std::string, int64_t> versions;
  for (bool last_look = false;;) {
    auto events = log.read(partition, cursor, 5);
    ASSERT_TRUE(events.has_value()) << events.error().message;
    for (const auto& event : *events) {
      ASSERT_EQ(event.position, ++cursor);
      ASSERT_EQ(event.version, ++versions[event.stream]) << event.stream;
      ++seen;
    }
    if (events->empty() && last_look) return;
    last_look = events->empty() && done;
  }
}

TEST_F(HostileWriters, ReadersSeeEverythingOnceWhateverWritersDo) {
  PostgresSubject storm(8);
  std::atomic<bool> done = false;
  std::atomic<int64_t> seen = 0, committed = 0;
  std::vector<std::jthread> readers, writers;
  for (int p = 0; p < 4; ++p) readers.emplace_back([&, p] { tail(storm.log(), p, done, seen); });
  for (int w = 0; w < 3; ++w)
    writers.emplace_back([&, w] {
      std::mt19937 random(static_cast<unsigned>(w));
      for (int i = 0; i < 40; ++i) {
        std::string stream = "s/" + std::to_string(random() % 12);
        if (w == 0) {
          for (const auto& answer :
               storm.log().run(std::vector{add(stream), add("s/x"), refuse_after_appending({"s/y"})}))
            committed += answer.has_value();
          continue;
        }
        RawWriter writer(storm.url);
        unsigned fate = random() % 4;
        writer.lock(stream);
        if (fate == 0) continue;  // dies
        writer.append(stream);
        if (fate == 1) writer.roll_back();
        if (fate == 2) writer.die();
        if (fate == 3) {
          writer.commit();
          ++committed;
        }
      }
    });
  writers.clear();
  done = true;
  readers.clear();
  EXPECT_EQ(seen, committed);
  expect_sound(storm.log());
}

}  // namespace
}  // namespace nodus::eventlog::contract
