#include "tests/unit/eventlog/contract.hpp"

#include <atomic>
#include <map>
#include <thread>

namespace nodus::eventlog::contract {

Work add(const std::string& stream, int count, const std::string& key, const std::string& hash) {
  return {key, hash, {stream}, [stream, count](Unit& unit) -> Result<std::string> {
            const Head& head = unit.head(stream);
            int64_t before = head.state.empty() ? 0 : std::stoll(head.state);
            std::vector<Event> events;
            for (int i = 0; i < count; ++i)
              events.push_back({"test.Added", std::to_string(before + i + 1) + std::string("\0\\'\xff", 4)});
            unit.append(stream, std::move(events), std::to_string(before + count), 1);
            return std::to_string(unit.head(stream).version);
          }};
}

Work refuse_after_appending(std::vector<std::string> streams, const std::string& key) {
  return {key, key.empty() ? "" : "h", streams, [streams](Unit& unit) -> Result<std::string> {
            for (const auto& stream : streams) unit.append(stream, {{"test.Never", "x"}}, "bad", 9);
            return fail(Code::kConflict, "Refused", "no");
          }};
}

std::vector<Recorded> read_all(EventLog& log, int page) {
  std::vector<Recorded> all;
  for (int partition = 0; partition < log.partitions(); ++partition) {
    for (int64_t after = 0;;) {
      auto events = log.read(partition, after, page);
      EXPECT_TRUE(events.has_value()) << events.error().message;
      if (!events || events->empty()) break;
      after = events->back().position;
      all.insert(all.end(), events->begin(), events->end());
    }
  }
  return all;
}

void expect_sound(EventLog& log) {
  std::map<int, int64_t> positions;
  std::map<std::string, int64_t> versions;
  for (const auto& event : read_all(log)) {
    EXPECT_EQ(event.position, ++positions[event.partition]) << "partition " << event.partition;
    EXPECT_EQ(event.version, ++versions[event.stream]) << event.stream;
    EXPECT_EQ(event.partition, partition_of(event.stream, log.partitions()));
  }
  for (const auto& [stream, version] : versions)
    EXPECT_EQ(log.head(stream).value().version, version) << stream;
  for (const auto& [partition, last] : positions) EXPECT_EQ(log.last_position(partition).value(), last);
}

TEST_P(EventLogContract, AppendsAndReadsBack) {
  auto answers = log().run(std::vector{add("sandbox/a", 3)});
  ASSERT_TRUE(answers[0].has_value()) << answers[0].error().message;
  EXPECT_EQ(*answers[0], "3");
  auto events = log().read_stream("sandbox/a", 0, 10).value();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].version, 2);
  EXPECT_EQ(events[1].position, 2);
  EXPECT_EQ(events[1].type, "test.Added");
  EXPECT_EQ(events[1].payload, "2" + std::string("\0\\'\xff", 4));
  EXPECT_EQ(events[1].at, subject_->clock.now());
  EXPECT_EQ(log().read_stream("sandbox/a", 1, 1).value().front().version, 2);
  Head head = log().head("sandbox/a").value();
  EXPECT_EQ(head.version, 3);
  EXPECT_EQ(head.state, "3");
  EXPECT_EQ(head.state_version, 1);
  expect_sound(log());
}

TEST_P(EventLogContract, AnUnknownStreamHasAnEmptyHead) {
  Head head = log().head("sandbox/none").value();
  EXPECT_EQ(head.version, 0);
  EXPECT_TRUE(log().read_stream("sandbox/none", 0, 10).value().empty());
  EXPECT_EQ(log().last_position(0).value(), 0);
}

TEST_P(EventLogContract, LaterWorksOfABatchSeeEarlierOnes) {
  auto answers = log().run(std::vector{add("s/1"), add("s/2", 2), add("s/1", 2), add("s/2")});
  EXPECT_EQ(answers[2].value(), "3");
  EXPECT_EQ(answers[3].value(), "3");
  EXPECT_EQ(log().head("s/1").value().state, "3");
  expect_sound(log());
}

TEST_P(EventLogContract, ARefusedWorkFailsAloneAndLeavesNothing) {
  auto answers =
      log().run(std::vector{add("s/1"), refuse_after_appending({"s/1", "s/new"}, "k"), add("s/1")});
  EXPECT_EQ(answers[0].value(), "1");
  EXPECT_EQ(answers[1].error().reason, "Refused");
  EXPECT_EQ(answers[2].value(), "2");
  EXPECT_EQ(log().head("s/new").value().version, 0);
  EXPECT_EQ(log().head("s/new").value().state, "");
  for (const auto& event : read_all(log())) EXPECT_EQ(event.type, "test.Added");
  EXPECT_EQ(log().run(std::vector{add("s/new", 1, "k", "h")})[0].value(), "1");  // the key was not used up
  expect_sound(log());
}

TEST_P(EventLogContract, AKeyIsDecidedOnce) {
  EXPECT_EQ(log().run(std::vector{add("s/1", 1, "create/x", "h1")})[0].value(), "1");
  auto again = log().run(std::vector{add("s/1", 1, "create/x", "h1"), add("s/9", 1, "create/x", "h2"),
                                     add("s/1", 1, "other", "h1")});
  EXPECT_EQ(again[0].value(), "1");
  EXPECT_EQ(again[1].error().code, Code::kConflict);
  EXPECT_EQ(again[1].error().reason, "IdempotencyKeyReused");
  EXPECT_EQ(again[2].value(), "2");
  EXPECT_EQ(log().head("s/9").value().version, 0);
  expect_sound(log());
}

TEST_P(EventLogContract, AKeyTwiceInOneBatchIsDecidedOnce) {
  auto answers = log().run(std::vector{refuse_after_appending({"s/1"}, "k"), add("s/1", 1, "k", "h"),
                                       add("s/1", 1, "k", "h"), add("s/1", 1, "k", "other")});
  EXPECT_EQ(answers[0].error().reason, "Refused");
  EXPECT_EQ(answers[1].value(), "1");
  EXPECT_EQ(answers[2].value(), "1");
  EXPECT_EQ(answers[3].error().reason, "IdempotencyKeyReused");
  expect_sound(log());
}

TEST_P(EventLogContract, AKeyBelongsToTheInputThatWasAccepted) {
  log().run(std::vector{refuse_after_appending({"s/1"}, "k"), add("s/1", 1, "k", "accepted")});
  auto again = log().run(std::vector{add("s/1", 1, "k", "accepted"), add("s/1", 1, "k", "h")});
  EXPECT_EQ(again[0].value(), "1");
  EXPECT_EQ(again[1].error().reason, "IdempotencyKeyReused");
}

TEST_P(EventLogContract, AKeyWithoutEventsStoresItsAnswerToo) {
  int decided = 0;
  Work work{"k", "h", {"s/1"}, [&](Unit&) -> Result<std::string> { return std::to_string(++decided); }};
  EXPECT_EQ(log().run(std::vector{work})[0].value(), "1");
  EXPECT_EQ(log().run(std::vector{work})[0].value(), "1");
  EXPECT_EQ(decided, 1);
  EXPECT_EQ(log().head("s/1").value().version, 0);
}

TEST_P(EventLogContract, AKeyTooLongIsRefusedAlone) {
  auto answers = log().run(std::vector{add("s/1", 1, std::string(513, 'k'), "h"), add("s/1")});
  EXPECT_EQ(answers[0].error().reason, "IdempotencyKeyInvalid");
  EXPECT_EQ(answers[1].value(), "1");
}

TEST_P(EventLogContract, AWorkMayTouchSeveralStreamsAndPartitions) {
  std::vector<std::string> streams;
  for (int i = 0; i < 20; ++i) streams.push_back("m/" + std::to_string(i));
  Work work{"", "", streams, [&](Unit& unit) -> Result<std::string> {
              for (const auto& stream : streams) unit.append(stream, {{"t", "1"}, {"t", "2"}}, "s", 1);
              return "";
            }};
  EXPECT_TRUE(log().run(std::vector{work})[0].has_value());
  EXPECT_EQ(read_all(log()).size(), 40u);
  expect_sound(log());
}

TEST_P(EventLogContract, RunTogetherAnswersEachWork) {
  auto answers = log().run_together(std::vector{add("s/1"), refuse_after_appending({"s/2"}), add("s/1")}, {});
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ((*answers)[0].value(), "1");
  EXPECT_EQ((*answers)[1].error().reason, "Refused");
  EXPECT_EQ((*answers)[2].value(), "2");
  expect_sound(log());
}

TEST_P(EventLogContract, TheHookHearsEveryCommitWithPositions) {
  std::vector<Recorded> heard;
  log().on_commit(
      [&](const std::vector<Recorded>& events) { heard.insert(heard.end(), events.begin(), events.end()); });
  log().run(std::vector{add("s/1", 2), refuse_after_appending({"s/1"})});
  log().run(std::vector{refuse_after_appending({"s/1"})});
  log().run_together(std::vector{add("s/1")}, {}).value();
  ASSERT_EQ(heard.size(), 3u);
  EXPECT_EQ(heard[2].position, 3);
  EXPECT_EQ(heard[2].version, 3);
  EXPECT_EQ(heard[2].partition, partition_of("s/1", 4));
}

TEST_P(EventLogContract, ConcurrentWritersKeepEveryStreamWhole) {
  constexpr int kThreads = 4, kRounds = 20;
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kRounds; ++i) {
          std::string own = "own/" + std::to_string(t) + "/" + std::to_string(i);
          auto answers = log().run(std::vector{add("hot"), add(own), add("warm/" + std::to_string(i % 3))});
          for (const auto& answer : answers) failures += !answer.has_value();
        }
      });
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(log().head("hot").value().version, kThreads * kRounds);
  EXPECT_EQ(log().head("hot").value().state, std::to_string(kThreads * kRounds));
  expect_sound(log());
}

TEST(PartitionOf, IsFixedForGood) {
  EXPECT_EQ(partition_of("", 1000), 14695981039346656037ULL % 1000);
  EXPECT_EQ(partition_of("a", 1000), 0xaf63dc4c8601ec8cULL % 1000);
  EXPECT_EQ(partition_of("foobar", 1000), 0x85944171f73967e8ULL % 1000);
}

}  // namespace nodus::eventlog::contract
