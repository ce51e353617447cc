// What only Kafka can do wrong: the broker away, a relay that dies or meets another one, cursors.
#include "tests/integration/bus/broker.hpp"
#include "tests/integration/bus/contract.hpp"
#include "tests/support/postgres_fixture.hpp"

#include <algorithm>

namespace nodus::bus::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Kafka, BusContract, testing::Values("kafka"),
                         [](const auto& info) { return info.param; });

class KafkaBus : public testing::Test {
 protected:
  World world{"kafka"};
  int64_t recorded() {
    return world.scalar("SELECT coalesce(sum(position), 0) FROM lifecycle.relay_offsets");
  }
};

TEST_F(KafkaBus, ABrokerThatIsKilledLosesNothingAndAppendsGoOn) {
  world.start_relay();
  auto consumer = world.consume();
  world.append("sandbox/a", 10);
  EXPECT_TRUE(world.wait_for_effects(10));
  EXPECT_TRUE(eventually([&] { return world.relay().oldest_unpublished() == Micros(0); }));

  shared_broker().kill_now();
  for (int i = 0; i < 200; ++i) world.append("sandbox/" + std::to_string(i % 8));  // each ASSERTs its commit
  EXPECT_TRUE(eventually([&] { return world.relay().oldest_unpublished() > Micros(0); }));
  const auto age = world.relay().oldest_unpublished();
  EXPECT_TRUE(eventually([&] { return world.relay().oldest_unpublished() > age; }));
  EXPECT_EQ(world.effects().size(), 10u);

  shared_broker().start();
  EXPECT_TRUE(world.wait_for_effects(210));
  EXPECT_TRUE(eventually([&] { return world.relay().oldest_unpublished() == Micros(0); }));
  for (int i = 0; i < 50; ++i) world.append("sandbox/" + std::to_string(i % 8));
  shared_broker().kill_now();  // perhaps with some of them on their way
  shared_broker().start();
  EXPECT_TRUE(world.wait_for_effects(260));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_F(KafkaBus, ASourceKnowsNoEndWhileTheBrokerIsAway) {
  world.start_relay();
  world.append("sandbox/a", 5);
  auto source = world.source([](int) { return Offset(); }).value();
  const auto at_end = [&] {
    EXPECT_TRUE(source->poll(10, Millis(50)).has_value());
    const auto ends = source->at_end();
    return ends.size() == kPartitions &&
           std::ranges::all_of(ends, [](const auto& end) { return end.second; });
  };
  EXPECT_TRUE(eventually(at_end));
  shared_broker().kill_now();
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(at_end());
  shared_broker().start();
  EXPECT_TRUE(eventually(at_end));
}

TEST_F(KafkaBus, ServicesStartWithoutABroker) {
  shared_broker().kill_now();
  world.start_relay();
  auto consumer = world.consume();
  world.append("sandbox/a", 5);
  EXPECT_TRUE(eventually([&] { return world.relay().oldest_unpublished() > Micros(0); }));
  shared_broker().start();
  EXPECT_TRUE(world.wait_for_effects(5));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_F(KafkaBus, EverythingStopsWhileTheBrokerIsAway) {
  world.start_relay();
  auto consumer = world.consume();
  world.append("sandbox/a", 5);
  EXPECT_TRUE(world.wait_for_effects(5));
  shared_broker().kill_now();
  world.append("sandbox/a", 5);
  EXPECT_TRUE(eventually([&] { return world.relay().oldest_unpublished() > Micros(0); }));
  consumer->stop();
  world.stop_relay();
  shared_broker().start();
  world.start_relay();
  consumer = world.consume();
  EXPECT_TRUE(world.wait_for_effects(10));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_F(KafkaBus, WhatARelayPublishesTwiceIsAppliedOnce) {
  for (int i = 0; i < 60; ++i) world.append("sandbox/" + std::to_string(i % 6));
  const int status =
      run_child({{"NODUS_FAILPOINT", "bus.relay_after_publish=kill:1"}}, "RelayInAChild", world);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_EQ(recorded(), 0);  // published, and it died before it could say so
  auto consumer = world.consume();
  EXPECT_TRUE(world.wait_for_effects(60));
  world.start_relay();
  EXPECT_TRUE(eventually([&] { return recorded() == 60; }));
  world.append("sandbox/0", 1);
  EXPECT_TRUE(world.wait_for_effects(61));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_F(KafkaBus, OneRelayOfALogIsActiveAndAnotherTakesOver) {
  auto first = make_relay(world.transport(), "lifecycle", *world.writer().log, world.writer().database);
  ASSERT_TRUE(first.has_value());
  world.append("sandbox/a", 1);
  EXPECT_TRUE(eventually([&] { return recorded() == 1; }));
  const auto holders =
      "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted "
      "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
  world.start_relay();
  for (int i = 0; i < 20; ++i) world.append("sandbox/" + std::to_string(i));
  EXPECT_TRUE(eventually([&] { return recorded() == 21; }));
  EXPECT_EQ(world.scalar(holders), 1);
  first->reset();
  for (int i = 0; i < 20; ++i) world.append("sandbox/" + std::to_string(i));
  EXPECT_TRUE(eventually([&] { return recorded() == 41; }));
  nodus::test::crash_and_restart_postgres();  // takes the lock from whoever holds it
  for (int i = 0; i < 20; ++i) world.append("sandbox/" + std::to_string(i));
  auto consumer = world.consume();
  EXPECT_TRUE(world.wait_for_effects(61));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

TEST_F(KafkaBus, AConsumerGoesOnWhereItsDatabaseSays) {
  world.start_relay();
  auto consumer = world.consume();
  world.append("sandbox/a", 10);
  EXPECT_TRUE(world.wait_for_effects(10));
  consumer->stop();
  // As after a restore of the reader's database to an earlier moment.
  world.execute("TRUNCATE scheduler.effects, scheduler.consumer_offsets");
  consumer = world.consume();
  EXPECT_TRUE(world.wait_for_effects(10));
  consumer->stop();
  EXPECT_TRUE(world.applied_exactly_once());
}

}  // namespace
}  // namespace nodus::bus::test
