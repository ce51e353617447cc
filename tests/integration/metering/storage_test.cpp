// Restore points that are stored: as lines of the bill, rows, ledger and views.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/metering/adapters/postgres/bill.hpp"
#include "services/metering/adapters/recompute.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

using testing::ElementsAre;

constexpr int64_t kGib = 1LL << 30;
constexpr double kMidnight = 16 * 3'600;  // of 2027-01-16, after kT0

class Storage : public ::testing::Test {
 protected:
  // Ran from 10 to 50; then a GiB is stored, for 9 pico a second.
  void store(const std::string& credits, const std::string& uid = "u1") {
    world_.credit(credits, "g-" + uid);
    world_.consume();
    world_.scheduler.offer(uid, 1);
    world_.scheduler.reserve(uid, 1, 10);
    world_.scheduler.save(uid, 1, 10, 50, kGib);
    world_.await_all();
  }
  std::vector<std::string> bill() {
    const auto bill = read_bill(world_.pool, {.org = OrgId("acme")}, world_.clock.now());
    EXPECT_TRUE(bill) << bill.error().message;
    std::vector<std::string> out;
    for (const auto& line : bill ? bill->lines : std::vector<BillLine>())
      out.push_back(std::string(to_string(line.line.kind)) + " " + std::to_string(line.line.from_s - kT0) +
                    "-" + std::to_string(line.line.to_s - kT0) + " " + line.reason);
    total_ = bill ? bill->total : Money();
    balance_ = bill ? bill->balance : Money();
    return out;
  }

  World world_;
  Money total_, balance_;
};

TEST_F(Storage, IsOnTheBillWhileItGrowsAndAfter) {
  store("1.00");
  world_.at(kMidnight + 10);
  const std::vector<std::string> expected{"Starting 10-50 Charged", "Storage 50-57600 Charged",
                                          "Storage 57600-57610 Charged"};
  EXPECT_EQ(bill(), expected);
  const Money open = total_, left = balance_;
  EXPECT_EQ(open.pico(), 9 * (40 + 57'560));
  EXPECT_TRUE(world_.audited());
  world_.scheduler.drop("u1", 1, kMidnight + 10);
  world_.await_all();
  EXPECT_EQ(bill(), expected);
  EXPECT_EQ(total_, open);
  EXPECT_EQ(balance_, left);
  EXPECT_EQ(world_.count("SELECT count(*) FROM stored"), 0);
  EXPECT_EQ(
      world_.text("SELECT string_agg(kind || ' ' || ref || ' ' || amount, ', ' ORDER BY kind) FROM postings"
                  " WHERE kind <> 'Credit'"),
      "Charge u1/1 -0.000000000360, Storage u1/1/1800000050 -0.000000518040");
  EXPECT_EQ(world_.text("SELECT sum(amount) FROM ledger_lines WHERE account = 'StorageRevenue'"),
            "-0.000000518040");
  EXPECT_TRUE(world_.audited());
  for (const Month month : {202701})
    for (const auto& one : *recompute(world_.pool, *world_.log, month, OrgId("acme"))) {
      EXPECT_EQ(one.faults, 0) << one.example;
      EXPECT_EQ(one.lines, 3);
    }
}

TEST_F(Storage, EndsWhereTheNextStartBegins) {
  store("1.00");
  world_.scheduler.offer("u1", 2);
  world_.scheduler.reserve("u1", 2, 80);
  world_.scheduler.save("u1", 2, 80, 90, -1);  // nothing new was saved
  world_.scheduler.offer("u1", 3);
  world_.scheduler.reserve("u1", 3, 100);
  world_.scheduler.save("u1", 3, 100, 110, 0, true);
  world_.await_all();
  EXPECT_THAT(bill(), ElementsAre("Starting 10-50 Charged", "Storage 50-80 Charged", "Starting 80-90 Charged",
                                  "Storage 90-100 Charged", "Starting 100-110 Charged"));
  EXPECT_EQ(
      world_.text("SELECT string_agg(start || ' ' || size_bytes || ' ' || price_version, ', ' ORDER BY start)"
                  " FROM storage_facts"),
      "1 1073741824 test, 2 1073741824 test");
  EXPECT_TRUE(world_.audited());
}

TEST_F(Storage, AtBalanceZeroItIsWaivedWithoutAStopAndGoesOnAfterATopUp) {
  store("0.000000001265");  // pays 100 s of it
  world_.at(200);
  EXPECT_THAT(bill(), ElementsAre("Starting 10-50 Charged", "Storage 50-150 Charged",
                                  "Storage 150-200 InsufficientCredits"))
      << "untold";
  world_.run_deadlines();
  EXPECT_EQ(world_.text("SELECT from_s || ' ' || waived FROM stored"), "1800000150 InsufficientCredits");
  EXPECT_THAT(world_.events("charge/u1"), testing::Not(testing::Contains("StopOrdered")));
  EXPECT_TRUE(world_.audited());
  world_.at(250);
  world_.credit("1.00", "g2");
  world_.run_deadlines();
  world_.at(300);
  EXPECT_THAT(bill(), ElementsAre("Starting 10-50 Charged", "Storage 50-150 Charged",
                                  "Storage 150-250 InsufficientCredits", "Storage 250-300 Charged"));
  EXPECT_EQ(total_.pico(), 9 * (40 + 100 + 50));
  EXPECT_TRUE(world_.audited());
  EXPECT_EQ(world_.count("SELECT count(*) FROM stored WHERE due"), 0);
}

TEST_F(Storage, ABudgetWaivesItUntilItIsRaised) {
  world_.put_budget("b", Money::from_pico(360 + 450));
  store("1.00");
  world_.at(120);
  world_.run_deadlines();
  EXPECT_THAT(bill(), ElementsAre("Starting 10-50 Charged", "Storage 50-100 Charged",
                                  "Storage 100-120 BudgetExceeded"));
  world_.put_budget("b", Money::from_pico(90'000), false);
  world_.run_deadlines();
  world_.at(130);
  EXPECT_THAT(bill(), ElementsAre("Starting 10-50 Charged", "Storage 50-100 Charged",
                                  "Storage 100-120 BudgetExceeded", "Storage 120-130 Charged"));
  EXPECT_TRUE(world_.audited());
}

TEST_F(Storage, FinanceSeesIt) {
  store("1.00");
  world_.scheduler.drop("u1", 1, 150);
  world_.await_all();
  EXPECT_EQ(
      world_.text(
          "SELECT sandbox || ' ' || gib_seconds::numeric(20,3) || ' ' || amount_usd || ' ' || size_bytes"
          " FROM finance.storage"),
      "box-u1 100.000 0.000000000900 1073741824");
  EXPECT_EQ(
      world_.text("SELECT amount_usd || ' ' || seconds FROM finance.spend_by_day WHERE kind = 'Storage'"),
      "0.000000000900 100");
  EXPECT_EQ(world_.text("SELECT running || ' ' || usd_per_second FROM finance.balances"), "0 0.000000000000");
}

}  // namespace
}  // namespace nodus::metering::test
