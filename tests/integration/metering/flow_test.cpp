// Starts from offer to bill, over the bus.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/metering/adapters/postgres/bill.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

using testing::ElementsAre;

TEST(Flow, AStartBecomesThreeLines) {
  World world;
  world.credit("1.00", "g1");
  world.consume();
  world.scheduler.offer("u1", 1);
  world.scheduler.reserve("u1", 1, 10);
  world.scheduler.started("u1", 1, 10, 12.2);
  world.scheduler.release("u1", 1, 10, 12.2, 30, 31.5);
  world.await_all();
  EXPECT_THAT(world.events("charge/u1"),
              ElementsAre("StartFunded", "ChargeOpened", "InstantsNoted", "ChargeClosed"));
  EXPECT_EQ(
      world.text("SELECT string_agg(kind || ' ' || (to_s - from_s) || ' ' || amount, ', ' ORDER BY ordinal)"
                 " FROM bill_lines"),
      "Starting 3 0.000000000027, Running 17 0.000000000153, Stopping 2 0.000000000018");
  EXPECT_EQ(world.text("SELECT sum(amount) FROM postings"), "0.999999999802");
  EXPECT_EQ(world.count("SELECT count(*) FROM starts"), 0);
  EXPECT_TRUE(world.audited());
}

TEST(Flow, ARefusalTellsItsNumbersAndACreditTellsLifecycle) {
  World world;
  world.credit("0.000000000700", "g1");
  world.consume();
  world.scheduler.offer("u1", 1);
  world.await_all();
  world.scheduler.offer("u2", 1);
  world.await_all();
  EXPECT_THAT(world.events("charge/u2"), ElementsAre("StartRefused"));
  world.credit("1.00", "g2");
  EXPECT_THAT(world.events("account/acme"), ElementsAre("CreditPosted", "FundsChanged", "HoldPlaced",
                                                        "RefusalNoted", "CreditPosted", "FundsChanged"));
  EXPECT_TRUE(world.audited());
}

TEST(Flow, ACreditIsPostedOnce) {
  World world;
  world.credit("1.00", "g1");
  world.credit("1.00", "g1");
  const std::vector again = {
      world.works.on_account(PostCredit{OrgId("acme"), "g1", "Grant", Money::parse("2.00").value(), "test"})};
  EXPECT_EQ(world.log->run(again).front().error().reason, "CreditIdReused");
  EXPECT_EQ(world.text("SELECT sum(amount) FROM postings"), "1.000000000000");
  EXPECT_TRUE(world.audited());
}

TEST(Flow, WithoutAPriceBookOffersWait) {
  World world;
  world.forget_prices();
  world.credit("1.00", "g1");
  world.scheduler.offer("u1", 1);
  world.consume();
  world.text("INSERT INTO prices VALUES ('late', 0, 0.000000000008, 0, 0, 0) RETURNING version");
  world.await_all();
  EXPECT_THAT(world.events("charge/u1"), ElementsAre("StartFunded"));
  EXPECT_EQ(world.count("SELECT count(*) FROM parked"), 0);
}

TEST(Flow, WhatCannotBeAppliedIsParkedWithItsStreamOnly) {
  World world;
  world.credit("1.00", "g1");
  world.consume();
  world.scheduler.reserve("bad", 1, 10);  // never funded
  world.scheduler.release("bad", 1, 10, 11, 12, 13);
  world.scheduler.raw("slot/newer", "nodus.scheduler.v1.SlotPainted", "");
  world.scheduler.offer("u1", 1);
  world.scheduler.reserve("u1", 1, 10);
  world.await_all();
  EXPECT_EQ(world.count("SELECT count(*) FROM parked"), 3);
  EXPECT_EQ(world.count("SELECT count(*) FROM starts WHERE open"), 1);
  EXPECT_TRUE(world.audited());
}

TEST(Flow, TheBillIsScopedPagedAndShowsOpenIntervals) {
  World world;
  world.credit("1.00", "g1");
  world.credit("1.00", "o1", "other");
  world.consume();
  for (const std::string uid : {"u1", "u2"}) {
    world.scheduler.offer(uid, 1);
    world.scheduler.reserve(uid, 1, 10);
    world.scheduler.release(uid, 1, 10, 12, 30, 31);
  }
  world.scheduler.offer("u1", 2);
  world.scheduler.reserve("u1", 2, 40);
  world.scheduler.started("u1", 2, 40, 41);
  world.scheduler.offer("x1", 1, "", "other");
  world.await_all();
  world.at(50);

  BillQuery query{.org = OrgId("acme"), .project = ProjectId("web"), .limit = 4};
  const auto first = read_bill(world.pool, query, world.clock.now());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->lines.size(), 4u);
  EXPECT_EQ(first->total.pico(), 2 * 189 + 90);
  EXPECT_EQ(first->balance.pico(), 1'000'000'000'000 - 2 * 189 - 90);
  ASSERT_FALSE(first->next.empty());
  query.after = first->next;
  const auto second = read_bill(world.pool, query, world.clock.now());
  ASSERT_TRUE(second);
  ASSERT_EQ(second->lines.size(), 4u);  // two posted, two open
  EXPECT_FALSE(second->lines[1].open);
  EXPECT_TRUE(second->lines[2].open);
  EXPECT_EQ(second->lines[3].line.kind, LineKind::kRunning);
  EXPECT_EQ(second->lines[3].line.amount.pico(), 81);
  EXPECT_TRUE(second->next.empty());

  query = {.org = OrgId("acme"), .project = ProjectId("web"), .sandbox = "box-u2"};
  EXPECT_EQ(read_bill(world.pool, query, world.clock.now())->total.pico(), 189);
  query.project = ProjectId("another");
  EXPECT_TRUE(read_bill(world.pool, query, world.clock.now())->lines.empty());
  query.after = "nonsense";
  EXPECT_EQ(read_bill(world.pool, query, world.clock.now()).error().reason, "ContinueInvalid");
}

TEST(Flow, TheAuditSeesAForgedLedger) {
  for (const std::string forgery :
       {"UPDATE postings SET amount = amount + 0.000000000001 WHERE kind = 'Charge' RETURNING 1",
        "UPDATE accounts SET credits = credits + 1 RETURNING 1",
        "UPDATE bill_lines SET from_s = from_s - 1, amount = amount + rate WHERE ordinal = 2 RETURNING 1",
        "DELETE FROM bill_lines WHERE ordinal = 2 RETURNING 1",
        "UPDATE heads SET state = '' WHERE stream = 'charge/u1' RETURNING 1"}) {
    World world;
    world.credit("1.00", "g1");
    world.consume();
    world.scheduler.offer("u1", 1);
    world.scheduler.reserve("u1", 1, 10);
    world.scheduler.release("u1", 1, 10, 12, 30, 31);
    world.await_all();
    world.stop_consumer();
    EXPECT_TRUE(world.audited());
    world.text(forgery);
    EXPECT_FALSE(world.audited()) << forgery;
  }
}

}  // namespace
}  // namespace nodus::metering::test
