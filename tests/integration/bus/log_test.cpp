// What is particular to the transport `log`: rights, and a doorbell that nobody rings.
#include "tests/integration/bus/contract.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::bus::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Log, BusContract, testing::Values("log"),
                         [](const auto& info) { return info.param; });

TEST(LogBus, ALostDoorbellCostsOnlyThePollInterval) {
  World world("log");
  auto consumer = world.consume();
  for (int i = 0; i < 10; ++i) {  // no relay, so no bell
    world.append("sandbox/a");
    EXPECT_TRUE(world.wait_for_effects(static_cast<size_t>(i) + 1));
  }
}

TEST(LogBus, AServiceReadsThePublishedEventsOfAnotherAndNothingElse) {
  World world("log");
  world.execute(
      "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'metering') THEN"
      " CREATE ROLE metering; END IF; END $$");
  nodus::test::add_schema(world.url(), nodus::test::log_files({"libs/bus/sql/inbox.sql"}), "other");
  const auto as_metering = [&](const std::string& table) {
    return world.writer().pool.with_tx([&](pg::Tx& tx) -> Result<int64_t> {
      tx.exec0("SET LOCAL ROLE metering");
      return tx.exec1("SELECT count(*) FROM other." + table)[0].as<int64_t>();
    });
  };
  EXPECT_EQ(as_metering("published_events"), 0);
  for (const auto* table : {"events", "heads", "idempotency", "parked", "consumer_offsets", "relay_offsets"})
    EXPECT_FALSE(as_metering(table).has_value()) << table;
}

TEST(BusOptions, FaultsAreAnswered) {
  World world("log");
  const auto reason = [&](TransportOptions options, const std::string& topic) {
    auto relay = make_relay(options, topic, *world.writer().log, world.writer().database);
    return relay ? "" : relay.error().reason;
  };
  EXPECT_EQ(reason({.kind = "pigeon"}, "lifecycle"), "InvalidBusKind");
  EXPECT_EQ(reason({.kind = "kafka"}, "lifecycle"), "NoKafkaBrokers");
  EXPECT_EQ(reason({.kind = "log"}, "x; DROP"), "InvalidTopic");
  EXPECT_EQ(reason({.kind = "kafka", .kafka_brokers = "127.0.0.1:1", .partitions = 3}, "lifecycle"),
            "InvalidPartitions");
}

}  // namespace
}  // namespace nodus::bus::test
