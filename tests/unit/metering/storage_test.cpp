// What is stored of a Sandbox that holds no slot: from where to where, who pays it, and where money ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metering/scenario.hpp"

namespace nodus::metering::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kGib = 1LL << 30;

// Ran from 10 to 50 for 360 pico; then a GiB is stored, for 9 pico a second.
Scenario stored(int64_t credits, int64_t limit = 0) {
  Scenario scenario;
  scenario.context.price = simple_price();
  scenario.context.price->storage_per_gib_s = Money::from_pico(8);
  scenario.run(credit(0, credits));
  if (limit > 0) scenario.run(put_budget(0, "b", limit));
  scenario.run(offer(1, slot(1)));
  scenario.run(reserve(10, slot(1), 10));
  EXPECT_THAT(scenario.run(save(50, slot(1), {.reserved = at(10), .released = at(49.5)}, kGib)),
              Contains("Stored from 50 rate 9"));
  return scenario;
}

TEST(StorageRate, IsRoundedOnceHalfUp) {
  auto price = simple_price();
  const auto rate = [&](int64_t pico, int64_t bytes) {
    price.storage_per_gib_s = Money::from_pico(pico);
    return storage_rate_of(bytes, price).pico_per_second();
  };
  EXPECT_TRUE(rate(8, kGib) == 9);
  EXPECT_TRUE(rate(8, 0) == 0);
  EXPECT_TRUE(rate(4, kGib) == 5);      // 4.5
  EXPECT_TRUE(rate(4, kGib - 1) == 4);  // just below
  EXPECT_TRUE(rate(38'000, 10 * kGib) == 427'500);
  EXPECT_TRUE(rate(1'000'000'000'000, int64_t{1} << 50) == int128{1'125'000'000'000} << 20);
}

TEST(Storage, IsMeteredFromTheReleaseToTheNextReservation) {
  auto scenario = stored(100'000);
  EXPECT_EQ(scenario.account().rate, Rate::from_pico_per_second(9));
  EXPECT_EQ(scenario.account().held_open, Money());
  EXPECT_EQ(scenario.account().funded, 0);
  EXPECT_THAT(scenario.run(offer(60, slot(2))), Contains("Funded 2 rate 9 hold 675"));
  EXPECT_EQ(scenario.account().open, 1) << "funded is not reserved: it is stored on";
  EXPECT_THAT(scenario.run(reserve(70, slot(2), 69.2)),
              testing::IsSupersetOf({"Metered [50,70)=180", "Posted 180", "Opened 2 from 70"}));
  EXPECT_EQ(scenario.charge().closed_total.pico(), 360) << "COST is compute only";
  EXPECT_EQ(scenario.budget().total.spent.pico(), 540);
  EXPECT_EQ(account::balance(scenario.account()).pico(), 100'000 - 540);
}

TEST(Storage, ARestorePointThatCouldNotBeMadeLeavesTheOneBeforeAndItsRate) {
  auto scenario = stored(100'000);
  scenario.run(offer(60, slot(2)));
  scenario.run(reserve(70, slot(2), 70));
  scenario.context.price->storage_per_gib_s = Money::from_pico(800);
  EXPECT_THAT(scenario.run(release(80, slot(2), {.reserved = at(70), .released = at(80)})),
              Contains("Stored from 80 rate 9"));
  scenario.run(offer(81, slot(3)));
  scenario.run(reserve(90, slot(3), 90));
  EXPECT_THAT(scenario.run(save(95, slot(3), {.reserved = at(90), .released = at(95)}, kGib / 2)),
              Contains("Stored from 95 rate 450"));
}

TEST(Storage, NothingIsStoredWithoutARestorePointOrAfterADelete) {
  Scenario scenario;
  for (const auto& step : {credit(0, 100'000), offer(1, slot(1)), reserve(10, slot(1), 10)})
    scenario.run(step);
  scenario.run(release(50, slot(1), {.reserved = at(10), .released = at(50)}));
  EXPECT_FALSE(scenario.charge().stored);
  auto other = stored(100'000);
  EXPECT_THAT(other.run(drop_storage(60, slot(1))), ElementsAre("Metered [50,60)=90", "Posted 90"));
  EXPECT_THAT(other.run(drop_storage(61, slot(1))), IsEmpty());
  EXPECT_EQ(other.account().rate, Rate());
  auto third = stored(100'000);
  third.run(offer(60, slot(2)));
  EXPECT_THAT(third.run({65, Command(EndOffer{slot(2), at(65), true})}),
              testing::IsSupersetOf({"OfferReleased 2", "Metered [50,65)=135"}));
  auto last = stored(100'000);
  last.run(offer(60, slot(2)));
  last.run(reserve(70, slot(2), 70));
  last.run({80, Command(CloseCharge{slot(2), {.reserved = at(70), .released = at(80)}, std::nullopt, true})});
  EXPECT_FALSE(last.charge().stored);
  EXPECT_EQ(last.account().open, 0);
}

TEST(Storage, AtBalanceZeroItIsWaivedAndATopUpResumesIt) {
  auto scenario = stored(360 + 900 + 8);  // pays 100 s, and not one more
  EXPECT_EQ(account::ends_at(scenario.account()), kT0 + 150);
  EXPECT_THAT(scenario.run(judge_storage(150, slot(1))), IsEmpty());
  EXPECT_THAT(scenario.run(judge_balance(151)), ElementsAre("Exhausted at 150"));
  EXPECT_THAT(
      scenario.run(judge_storage(151, slot(1))),
      ElementsAre("Metered [50,150)=900", "Stored from 150 InsufficientCredits", "Posted 900", "Noted 675"));
  EXPECT_TRUE(scenario.account().exhaustions.empty());
  EXPECT_THAT(scenario.run(judge_storage(160, slot(1))), ElementsAre("Noted 675")) << "8 pico are no second";
  EXPECT_THAT(scenario.run(credit(170, 10'000, "g2")), Contains("FundsChanged"));
  EXPECT_THAT(
      scenario.run(judge_storage(171.5, slot(1))),
      ElementsAre("Metered [150,172)InsufficientCredits", "Stored from 172 rate 9", "Accrual 9 from 172"));
  EXPECT_THAT(scenario.run(drop_storage(200, slot(1))), ElementsAre("Metered [172,200)=252", "Posted 252"));
  EXPECT_EQ(account::balance(scenario.account()).pico(), 10'008 - 252);
}

TEST(Storage, ABudgetWaivesItAndARaisedOneResumesIt) {
  auto scenario = stored(100'000, 360 + 900);
  EXPECT_THAT(scenario.run(judge_budget(150)), ElementsAre("Flattened 1 lines at 150", "b exhausted at 150"));
  EXPECT_THAT(scenario.run(judge_storage(150, slot(1))),
              ElementsAre("Metered [50,150)=900", "Stored from 150 BudgetExceeded", "Posted 900",
                          "Budget noted 675"));
  EXPECT_THAT(scenario.run(change_budget(170, "b", 90'000)), Contains("BudgetFundsChanged"));
  EXPECT_THAT(scenario.run(judge_storage(170.5, slot(1))), Contains("Stored from 171 rate 9"));
  scenario.run(drop_storage(181, slot(1)));
  EXPECT_EQ(scenario.budget().total.spent.pico(), 360 + 900 + 90);
}

TEST(Storage, AReservationThatComesBeforeAnyoneIsToldOfTheEndWaivesFromTheEnd) {
  auto scenario = stored(360 + 900 + 5);
  scenario.run(judge_balance(155));
  scenario.run(credit(156, 100'000, "g2"));
  scenario.run(offer(160, slot(2)));
  EXPECT_THAT(
      scenario.run(reserve(170, slot(2), 170)),
      testing::IsSupersetOf({"Metered [50,150)=900", "Metered [150,170)InsufficientCredits", "Posted 900"}));
  EXPECT_TRUE(scenario.account().exhaustions.empty());
  EXPECT_EQ(scenario.account().pending, Money());
}

TEST(Storage, AStartThatStoppedForMoneyStoresForWhatIsLeftOfIt) {
  Scenario scenario;
  scenario.context.price = simple_price();
  scenario.context.price->storage_per_gib_s = Money::from_pico(8);
  for (const auto& step : {credit(0, 900), offer(1, slot(1)), reserve(10, slot(1), 10)}) scenario.run(step);
  EXPECT_THAT(scenario.run(judge(95, slot(1))), ElementsAre("StopOrdered 1 Credits"));
  EXPECT_THAT(scenario.run(save(100, slot(1), {.reserved = at(10), .released = at(100)}, kGib)),
              Contains("Stored from 100 rate 9"));
  EXPECT_EQ(account::ends_at(scenario.account()), kT0 + 110);
  scenario.run(judge_balance(111));
  EXPECT_THAT(scenario.run(judge_storage(111, slot(1))), Contains("Stored from 110 InsufficientCredits"));
  EXPECT_EQ(account::balance(scenario.account()), Money());
}

TEST(Storage, OneDeadlineHoldsForWhatRunsAndWhatIsStored) {
  auto scenario = stored(360 + 9'000);
  scenario.run(offer(55, slot(1, "u2")));
  scenario.run(reserve(60, slot(1, "u2"), 60));
  // 90 pico were stored until 60; then 18 a second.
  EXPECT_EQ(account::ends_at(scenario.account()), kT0 + 60 + (9'000 - 90) / 18);
  EXPECT_EQ(account::stop_at(scenario.account(), Seconds(15)), kT0 + 540);
  EXPECT_THAT(scenario.run(judge(540, slot(1, "u2"))), ElementsAre("StopOrdered 1 Credits"));
}

}  // namespace
}  // namespace nodus::metering::test
