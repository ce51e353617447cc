#include "tests/integration/bus/contract.hpp"

#include <algorithm>
#include <thread>

#include "tests/support/postgres_fixture.hpp"

namespace nodus::bus::test {
namespace {

// Delivers everything twice: each batch, and then the same batch again.
class Repeating final : public Source {
 public:
  explicit Repeating(std::unique_ptr<Source> inner) : inner_(std::move(inner)) {}
  Result<std::vector<Message>> poll(int max, Millis timeout) override {
    if (!again_.empty()) return std::exchange(again_, {});
    auto messages = inner_->poll(max, timeout);
    if (messages) again_ = *messages;
    return messages;
  }
  void rewind(int partition) override { inner_->rewind(partition); }

 private:
  std::unique_ptr<Source> inner_;
  std::vector<Message> again_;
};

TEST_P(BusContract, KeepsTheOrderOfAStreamUnderConcurrentWriters) {
  world.start_relay();
  auto consumer = world.consume();
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w)
    writers.emplace_back([&, w] {
      for (int i = 0; i < 60; ++i) world.append("sandbox/" + std::to_string((i * 7 + w) % 12), 1 + i % 3);
    });
  for (auto& writer : writers) writer.join();
  EXPECT_TRUE(world.wait_for_effects(4 * 120));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

bool all_at_end(const Source& source) {
  const auto ends = source.at_end();
  return ends.size() == kPartitions && std::ranges::all_of(ends, [](const auto& end) { return end.second; });
}

TEST_P(BusContract, ASourceKnowsWhenItIsAtTheEnd) {
  world.start_relay();
  world.append("sandbox/a", 50);
  auto source = world.source([](int) { return Offset(); }).value();
  size_t read = 0;
  EXPECT_TRUE(eventually([&] {
    const auto messages = source->poll(10, Millis(50));
    if (messages) read += messages->size();
    // The log is read a share at a time: it must not look like its end before.
    if (GetParam() == "log") EXPECT_EQ(all_at_end(*source), read == 50);
    return read == 50 && all_at_end(*source);
  }));
}

TEST_P(BusContract, ARepeatIsANoOp) {
  world.start_relay();
  auto consumer = world.consume([&](OffsetOf offset_of) -> Result<std::unique_ptr<Source>> {
    auto inner = world.source(std::move(offset_of));
    if (!inner) return std::unexpected(inner.error());
    return std::make_unique<Repeating>(std::move(*inner));
  });
  for (int i = 0; i < 50; ++i) world.append("sandbox/" + std::to_string(i % 5));
  EXPECT_TRUE(world.wait_for_effects(50));
  world.append("sandbox/last");
  EXPECT_TRUE(world.wait_for_effects(51));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_P(BusContract, ARestartedConsumerLosesAndDoublesNothing) {
  world.start_relay();
  std::atomic<bool> written = false;
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) world.append("sandbox/" + std::to_string(i % 9), 2);
    written = true;
  });
  int restarts = 0;
  while (!written || restarts < 3) {
    auto consumer = world.consume({.max_batch = 16});
    const auto before = world.effects().size();
    EXPECT_TRUE(world.wait_for_effects(std::min<size_t>(before + 1, 600)));
    consumer->stop();
    ++restarts;
  }
  writer.join();
  auto consumer = world.consume();
  EXPECT_TRUE(world.wait_for_effects(600));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_P(BusContract, TwoReplicasOfAServiceLoseAndDoubleNothing) {
  world.start_relay();
  auto first = world.consume({.max_batch = 8});
  world.append("sandbox/a", 20);
  EXPECT_TRUE(world.wait_for_effects(1));
  auto second = world.consume({.max_batch = 8});
  for (int i = 0; i < 200; ++i) world.append("sandbox/" + std::to_string(i % 20));
  EXPECT_TRUE(world.wait_for_effects(110));
  first->stop();
  first.reset();
  for (int i = 0; i < 100; ++i) world.append("sandbox/" + std::to_string(i % 20));
  EXPECT_TRUE(world.wait_for_effects(320));
  second->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_P(BusContract, MessagesThatAreNotForUsAdvanceTheOffset) {
  world.start_relay();
  auto consumer = world.consume();
  world.append("sandbox/a", 30, "ignored");
  EXPECT_TRUE(eventually(
      [&] { return world.scalar("SELECT coalesce(sum(position), 0) FROM consumer_offsets") == 30; }));
  consumer->stop();
  EXPECT_TRUE(world.effects().empty());
}

TEST_P(BusContract, AMessageThatCannotBeAppliedParksItsStreamAndStopsNobodyElse) {
  world.start_relay();
  auto consumer = world.consume();
  world.append("sandbox/bad", 2);
  world.append("sandbox/bad", 1, "poison");
  world.append("sandbox/bad", 2);
  world.append("sandbox/good", 5);
  EXPECT_TRUE(world.wait_for_effects(7));
  EXPECT_TRUE(eventually([&] { return world.scalar("SELECT count(*) FROM parked") == 3; }));
  world.append("sandbox/bad", 1);
  world.append("sandbox/good", 1);
  EXPECT_TRUE(world.wait_for_effects(8));
  EXPECT_TRUE(eventually([&] { return world.scalar("SELECT count(*) FROM parked") == 4; }));

  auto parked = list_parked(world.reader().pool, 100);
  ASSERT_TRUE(parked && parked->size() == 4);
  EXPECT_EQ(parked->front().message.type, "poison");
  EXPECT_EQ(parked->front().message.stream, "sandbox/bad");
  EXPECT_EQ(parked->front().message.version, 3);
  EXPECT_EQ(parked->front().error, "Poison: Cannot be applied.");
  EXPECT_EQ(world.versions_of("sandbox/bad"), (std::vector<int64_t>{1, 2}));

  auto still =
      replay_parked(*world.reader().log, world.reader().pool, world.route(), "lifecycle", "sandbox/bad");
  EXPECT_EQ(still, 0);
  world.healed = true;
  auto done =
      replay_parked(*world.reader().log, world.reader().pool, world.route(), "lifecycle", "sandbox/bad");
  EXPECT_EQ(done, 4);
  EXPECT_EQ(world.versions_of("sandbox/bad"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));

  world.append("sandbox/bad", 1);  // the consumer notices that the stream is free again
  EXPECT_TRUE(world.wait_for_effects(13));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_P(BusContract, ParkedMessagesCanBeSkipped) {
  world.start_relay();
  auto consumer = world.consume();
  world.append("sandbox/bad", 1, "unroutable");
  world.append("sandbox/bad", 1);
  EXPECT_TRUE(eventually([&] { return world.scalar("SELECT count(*) FROM parked") == 2; }));
  EXPECT_EQ(skip_parked(world.reader().pool, "lifecycle", "sandbox/bad"), 2);
  world.append("sandbox/bad", 2);
  EXPECT_TRUE(world.wait_for_effects(2));
  consumer->stop();
  EXPECT_EQ(world.versions_of("sandbox/bad"), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(world.scalar("SELECT count(*) FROM parked"), 0);
}

TEST_P(BusContract, AMessageThatTheDatabaseRefusesIsParkedAlone) {
  for (int i = 0; i < 10; ++i) world.append("sandbox/" + std::to_string(i), 2);
  world.append("sandbox/bad", 1, "rejected");
  for (int i = 0; i < 10; ++i) world.append("sandbox/" + std::to_string(i), 2);
  world.start_relay();
  auto consumer = world.consume();
  EXPECT_TRUE(world.wait_for_effects(40));
  EXPECT_TRUE(eventually([&] { return world.scalar("SELECT count(*) FROM parked") == 1; }));
  world.healed = true;
  EXPECT_EQ(
      replay_parked(*world.reader().log, world.reader().pool, world.route(), "lifecycle", "sandbox/bad"), 1);
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_P(BusContract, AWorkThatAsksForALaterTryIsNotParked) {
  world.start_relay();
  auto consumer = world.consume();
  world.append("sandbox/a", 1, "later");
  world.append("sandbox/a", 1);
  const auto waited = [&] { return metrics_value("nodus_bus_consumer_failures_total"); };
  const double before = waited();
  EXPECT_TRUE(eventually([&] { return waited() >= before + 2; }));
  EXPECT_TRUE(world.effects().empty());
  world.healed = true;
  EXPECT_TRUE(world.wait_for_effects(2));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
  EXPECT_EQ(world.scalar("SELECT count(*) FROM parked"), 0);
}

TEST_P(BusContract, AGapStopsItsPartitionOnly) {
  world.append("sandbox/a", 6);
  const int partition = eventlog::partition_of("sandbox/a", kPartitions);
  std::string other = "sandbox/b";
  while (eventlog::partition_of(other, kPartitions) == partition) other += "b";
  world.append(other, 3);
  world.execute("DELETE FROM events WHERE position = 4 AND log_partition = " + std::to_string(partition));
  world.start_relay();
  auto consumer = world.consume();
  EXPECT_TRUE(world.wait_for_effects(6));
  const auto stopped = [&] {
    return metrics_value("nodus_bus_partition_stopped{log_partition=\"" + std::to_string(partition) + "\"");
  };
  EXPECT_TRUE(eventually([&] { return stopped() == 1; }));
  world.append(other, 3);
  world.append("sandbox/a", 1);
  EXPECT_TRUE(world.wait_for_effects(9));
  consumer->stop();
  EXPECT_EQ(world.versions_of("sandbox/a"), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(world.versions_of(other).size(), 6u);
}

TEST_P(BusContract, ACrashOfTheDatabaseLosesAndDoublesNothing) {
  world.start_relay();
  auto consumer = world.consume({.max_batch = 8});
  for (int i = 0; i < 100; ++i) world.append("sandbox/" + std::to_string(i % 7));
  EXPECT_TRUE(world.wait_for_effects(10));
  nodus::test::crash_and_restart_postgres();
  EXPECT_TRUE(world.wait_for_effects(100));
  for (int i = 0; i < 20; ++i) world.append("sandbox/" + std::to_string(i % 7));
  EXPECT_TRUE(world.wait_for_effects(120));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

// In a child process, which kills itself between the statements of a batch and its COMMIT, or right after.
void consume_and_die(World& world, const std::string& failpoint) {
  const int status = run_child({{"NODUS_FAILPOINT", failpoint}}, "ConsumeInAChild", world);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << failpoint << ": status " << status;
}

TEST_P(BusContract, OffsetAndEffectAreOneTransaction) {
  for (int i = 0; i < 120; ++i) world.append("sandbox/" + std::to_string(i % 11));
  world.start_relay();
  consume_and_die(world, "bus.before_commit=kill:1");
  EXPECT_EQ(world.effects().size(), 0u);
  consume_and_die(world, "bus.before_commit=kill:3");
  consume_and_die(world, "bus.after_commit=kill:1");
  const auto done = world.effects().size();
  EXPECT_GT(done, 0u);
  EXPECT_LT(done, 120u);
  EXPECT_EQ(world.scalar("SELECT sum(position) FROM consumer_offsets"), static_cast<int64_t>(done));
  auto consumer = world.consume();
  EXPECT_TRUE(world.wait_for_effects(120));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

}  // namespace
}  // namespace nodus::bus::test
