// The ledger: it balances, nothing edits it, and who did is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/metering/adapters/postgres/ledger.hpp"
#include "services/metering/adapters/rebuild.hpp"
#include "services/metering/adapters/sealer.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

using testing::HasSubstr;

// "" when the statement is done.
std::string refusal(World& world, const std::string& sql) {
  const auto done = world.pool.with_tx([&](pg::Tx& tx) -> Result<void> {
    tx.exec(sql);
    return {};
  });
  return done ? "" : done.error().message;
}

void some_history(World& world) {
  world.credit("1.00", "g1");
  world.consume();
  for (int i = 0; i < 5; ++i) {
    const auto uid = "u" + std::to_string(i);
    world.scheduler.offer(uid, 1);
    world.scheduler.reserve(uid, 1, 10);
    world.scheduler.started(uid, 1, 10, 11);
    world.scheduler.release(uid, 1, 10, 11, 20, 21 + i);
  }
  world.await_all();
}

TEST(Ledger, EveryPostingBalancesAndNamesItsEvent) {
  World world;
  some_history(world);
  EXPECT_EQ(world.count("SELECT count(*) FROM ledger_entries"), 6);
  EXPECT_EQ(world.count("SELECT count(*) FROM ledger_entries l JOIN events e ON e.stream = l.stream"
                        " AND e.version = l.version AND e.type IN ('nodus.metering.v1.CreditPosted',"
                        " 'nodus.metering.v1.ChargeClosed')"),
            6);
  EXPECT_TRUE(world.audited());
}

TEST(Ledger, NothingCanBeEditedOrLeftUnbalanced) {
  World world;
  some_history(world);
  for (const char* table : {"ledger_entries", "ledger_lines", "credits", "ledger_seals"}) {
    const std::string name = table;
    EXPECT_NE(refusal(world, "DELETE FROM " + name), "");
    EXPECT_NE(refusal(world, "TRUNCATE " + name), "");
  }
  EXPECT_NE(refusal(world, "UPDATE ledger_lines SET amount = 0"), "");
  EXPECT_NE(refusal(world, "UPDATE ledger_entries SET org = 'x'"), "");
  EXPECT_NE(
      refusal(world, "INSERT INTO ledger_lines VALUES (100, 1, 'Cash', 1), (100, 2, 'CustomerCredit', -2)"),
      "");
  EXPECT_NE(refusal(world, "INSERT INTO ledger_lines VALUES (1, 3, 'Cash', 1), (1, 4, 'CustomerCredit', -1)"),
            "");
  EXPECT_NE(refusal(world, "INSERT INTO ledger_lines VALUES (100, 1, 'Pocket', 1), (100, 2, 'Cash', -1)"),
            "");
  EXPECT_NE(refusal(world, "UPDATE prices SET cpu_per_vcpu_s = 0"), "");
  EXPECT_TRUE(world.audited());
}

TEST(Ledger, SealsAreAChainThatNamesWhatWasChanged) {
  World world;
  some_history(world);
  Sealer sealer(world.clock, world.pool);
  (void)sealer.step();
  EXPECT_EQ(world.count("SELECT count(*) FROM ledger_seals"), 1);
  world.credit("2.00", "g2");
  (void)sealer.step();  // not twice a day
  EXPECT_EQ(world.count("SELECT count(*) FROM ledger_seals"), 1);
  const auto first = verify_ledger(world.pool, "");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->unsealed, 1);
  const auto sealed = seal_ledger(world.pool, world.clock.now());
  ASSERT_TRUE(sealed) << sealed.error().message;
  EXPECT_EQ(sealed->entries, 1);
  EXPECT_EQ(seal_ledger(world.pool, world.clock.now())->entries, 0);
  const auto good = verify_ledger(world.pool, first->head);
  EXPECT_TRUE(good->faults.empty());
  EXPECT_TRUE(good->expected_found);
  EXPECT_EQ(good->seals, 2);
  EXPECT_FALSE(verify_ledger(world.pool, std::string(64, '0'))->expected_found);
  EXPECT_TRUE(world.audited());

  const auto tamper = [&](const std::string& table, const std::string& sql) {
    ASSERT_EQ(refusal(world, "ALTER TABLE " + table + " DISABLE TRIGGER USER; " + sql), "");
  };
  const auto found = [&] {
    std::string all;
    for (const auto& fault : verify_ledger(world.pool, "")->faults) all += to_string(fault) + "\n";
    return all;
  };
  tamper("ledger_lines", "UPDATE ledger_lines SET amount = amount * 2 WHERE entry = 3");
  EXPECT_EQ(found(), "seal 1, entry 3: the entry or one of its lines was changed\n");
  EXPECT_FALSE(world.audited());
  tamper("ledger_lines", "UPDATE ledger_lines SET amount = amount / 2 WHERE entry = 3");
  EXPECT_EQ(found(), "");
  tamper("ledger_entries", "DELETE FROM ledger_entries WHERE id = 2");
  EXPECT_THAT(found(), HasSubstr("seal 1: it sealed 6 entries, and there are 5"));
  tamper("ledger_seals", "UPDATE ledger_seals SET to_entry = 5 WHERE n = 1");
  EXPECT_THAT(found(), HasSubstr("seal 1: the seal was changed"));
  tamper("ledger_seals", "DELETE FROM ledger_seals WHERE n = 1");
  EXPECT_THAT(found(), HasSubstr("seal 2: the seal before it is missing"));
}

TEST(Ledger, ARebuildFindsWhatFollowsFromNoEvent) {
  World world;
  some_history(world);
  ASSERT_EQ(refusal(world,
                    "WITH e AS (INSERT INTO ledger_entries (org, kind, ref, stream, version, at_us)"
                    " VALUES ('acme', 'Grant', 'mine', 'account/acme', 99, 0) RETURNING id)"
                    " INSERT INTO ledger_lines SELECT id, o, a, m FROM e, (VALUES (1, 'CustomerCredit', -5),"
                    " (2, 'GrantedCredit', 5)) AS l (o, a, m)"),
            "");
  const auto checks = rebuild_check(world.pool, *world.log);
  ASSERT_TRUE(checks) << checks.error().message;
  std::map<std::string, int64_t> faults;
  for (const auto& check : *checks) faults[check.name] = check.faults;
  EXPECT_EQ(faults["rebuild from events = ledger"], 1);
  EXPECT_EQ(faults["rebuild from events = postings"], 0);
  EXPECT_EQ(faults["rebuild from events = head rows"], 0);
}

}  // namespace
}  // namespace nodus::metering::test
