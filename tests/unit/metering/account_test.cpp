// Where money ends: balance, caps, stop orders, eras.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metering/scenario.hpp"

namespace nodus::metering::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// 1 vCPU from second 10 on 1,000 pico: 111 whole seconds, so the balance ends at 121 and stops are due at
// 106.
Scenario running_out() {
  Scenario scenario;
  for (const auto& step : {credit(0, 1'000), offer(1, slot(1)), reserve(10, slot(1), 10)}) scenario.run(step);
  return scenario;
}

TEST(Account, KnowsWhereItEnds) {
  auto scenario = running_out();
  EXPECT_EQ(account::ends_at(scenario.account()), kT0 + 121);
  EXPECT_EQ(account::stop_at(scenario.account(), Seconds(15)), kT0 + 106);
  EXPECT_EQ(account::available(scenario.account(), kT0 + 20).pico(), 1'000 - 675 - 90);
}

TEST(Account, WithoutARunningStartItNeverEnds) {
  Scenario scenario;
  scenario.run(credit(0, 1'000));
  scenario.run(offer(1, slot(1)));
  EXPECT_EQ(account::ends_at(scenario.account()), std::nullopt);
}

TEST(Account, OrdersTheStopOnceWhenTheReserveIsLeft) {
  auto scenario = running_out();
  EXPECT_THAT(scenario.run(judge(105.999999, slot(1))), IsEmpty());
  EXPECT_THAT(scenario.run(judge(106, slot(1))), ElementsAre("StopOrdered 1 Credits"));
  EXPECT_THAT(scenario.run(judge(107, slot(1))), IsEmpty());
}

TEST(Account, AJudgementReachesAsFarAsTheFactsAreKnown) {
  auto scenario = running_out();
  EXPECT_THAT(scenario.run(judge_late(200, slot(1), 105)), IsEmpty());
  EXPECT_THAT(scenario.run(judge_late(200, slot(1), 121)), ElementsAre("StopOrdered 1 Credits"));
  EXPECT_THAT(scenario.run(release(201, slot(1), {.reserved = at(10), .released = at(109)})),
              ElementsAre("Closed 1 amount 891 total 891 Starting[10,109)=891", "Posted 891"));
}

TEST(Account, ASlotThatStopsAlreadyNeedsNoOrder) {
  auto scenario = running_out();
  scenario.run(note(100, slot(1), {.reserved = at(10), .stopping = at(100)}));
  EXPECT_THAT(scenario.run(judge(110, slot(1))), IsEmpty());
}

TEST(Account, ADeclinedStopIsOrderedAgain) {
  auto scenario = running_out();
  scenario.run(judge(106, slot(1)));  // ordered, but the idle stop was under way already
  scenario.run(note(107, slot(1), {.reserved = at(10), .stopping = at(105)}));
  EXPECT_THAT(scenario.run(judge(108, slot(1))), IsEmpty());
  EXPECT_THAT(scenario.run(decline(109, slot(1))), ElementsAre("Declined 1"));
  EXPECT_THAT(scenario.run(judge(109, slot(1))), ElementsAre("StopOrdered 1 Credits"));
  EXPECT_THAT(scenario.run(judge(110, slot(1))), IsEmpty());
}

TEST(Account, AStopThatIsDeclinedAfterTheEndIsOrdered) {
  auto scenario = running_out();
  scenario.run(note(107, slot(1), {.reserved = at(10), .stopping = at(105)}));
  EXPECT_THAT(scenario.run(judge(122, slot(1))), ElementsAre("PaidUntil 121", "Exhausted at 121"));
  scenario.run(decline(123, slot(1)));
  EXPECT_THAT(scenario.run(judge(123, slot(1))), ElementsAre("StopOrdered 1 Credits"));
}

TEST(Account, AStopThatIsDeclinedAfterTheCapIsOrdered) {
  Scenario scenario;
  for (const auto& step :
       {credit(0, 5'000), offer(1, slot(1), Money::from_pico(900)), reserve(10, slot(1), 10),
        note(109, slot(1), {.reserved = at(10), .stopping = at(108)})})
    scenario.run(step);
  EXPECT_THAT(scenario.run(judge(110, slot(1))), ElementsAre("CapReached 110", "Flattened at 110"));
  scenario.run(decline(111, slot(1)));
  EXPECT_THAT(scenario.run(judge(111, slot(1))), ElementsAre("StopOrdered 1 MaxCost"));
}

TEST(Account, SecondsBeyondTheBalanceAreWaived) {
  auto scenario = running_out();
  const auto words = scenario.run(release(
      130, slot(1), {.reserved = at(10), .started = at(11), .stopping = at(106), .released = at(125)}));
  EXPECT_THAT(words, ElementsAre("Closed 1 amount 999 total 999 Starting[10,11)=9 Running[11,106)=855 "
                                 "Stopping[106,121)=135 Stopping[121,125)InsufficientCredits",
                                 "Exhausted at 121", "Posted 999"));
  EXPECT_EQ(account::balance(scenario.account()).pico(), 1);
  EXPECT_THAT(scenario.account().exhaustions, IsEmpty());
}

TEST(Account, ATopUpDoesNotPayForWhatWasWaived) {
  auto scenario = running_out();
  EXPECT_THAT(scenario.run(credit(123, 5'000, "g2")),
              ElementsAre("Exhausted at 121", "Credit 5000", "FundsChanged"));
  EXPECT_THAT(scenario.run(judge(124, slot(1))), ElementsAre("PaidUntil 121", "StopOrdered 1 Credits"));
  const auto words =
      scenario.run(release(130, slot(1), {.reserved = at(10), .started = at(11), .released = at(125)}));
  EXPECT_THAT(words, ElementsAre("Closed 1 amount 999 total 999 Starting[10,11)=9 Running[11,121)=990 "
                                 "Running[121,125)InsufficientCredits",
                                 "Posted 999"));
  EXPECT_EQ(account::balance(scenario.account()).pico(), 5'001);
  EXPECT_EQ(scenario.account().pending, Money());
}

TEST(Account, ATopUpInTimeMovesTheEnd) {
  auto scenario = running_out();
  EXPECT_THAT(scenario.run(credit(110, 900, "g2")), ElementsAre("Credit 900", "FundsChanged"));
  EXPECT_EQ(account::ends_at(scenario.account()), kT0 + 221);
  EXPECT_THAT(scenario.run(judge(111, slot(1))), IsEmpty());
}

TEST(Account, FundedHoldsAreSetAside) {
  auto scenario = running_out();
  scenario.run(credit(11, 675, "g2"));
  EXPECT_THAT(scenario.run(offer(12, slot(1, "u2"))), testing::Contains("Hold 675"));
  EXPECT_EQ(account::ends_at(scenario.account()), kT0 + 121);  // not 196
  EXPECT_THAT(scenario.run(judge_balance(122)), ElementsAre("Exhausted at 121"));
  scenario.run(reserve(130, slot(1, "u2"), 130));
  EXPECT_EQ(account::ends_at(scenario.account()), kT0 + 205);  // its own 75 s, in the next era
}

TEST(Account, TheLastPayableSecondIsPaid) {
  auto scenario = running_out();
  EXPECT_THAT(scenario.run(judge_balance(121)), IsEmpty());
  EXPECT_THAT(scenario.run(judge_balance(121.000001)), ElementsAre("Exhausted at 121"));
  EXPECT_THAT(scenario.run(judge_balance(130)), IsEmpty());
}

TEST(Account, EachOpenStartIsToldOnceWhereItsMoneyEnded) {
  auto scenario = running_out();
  scenario.run(note(100, slot(1), {.reserved = at(10), .stopping = at(100)}));
  scenario.run(judge_balance(122));
  EXPECT_THAT(scenario.run(judge(122, slot(1))), ElementsAre("PaidUntil 121"));  // no stop: it stops
  EXPECT_THAT(scenario.run(judge(123, slot(1))), IsEmpty());
}

TEST(Account, TwoStartsEndTogether) {
  auto scenario = running_out();
  scenario.run(credit(11, 1'100, "g2"));
  scenario.run(offer(12, slot(1, "u2"), std::nullopt, 2'000));  // 18 a second
  scenario.run(reserve(20, slot(1, "u2"), 20));
  // 2100 = 9 × (t − 10) + 18 × (t − 20): t = 94.4
  EXPECT_EQ(account::ends_at(scenario.account()), kT0 + 94);
  scenario.run(judge(95, slot(1)));
  EXPECT_THAT(
      scenario.run(release(98, slot(1), {.reserved = at(10), .released = at(98)})),
      ElementsAre("Closed 1 amount 756 total 756 Starting[10,94)=756 Starting[94,98)InsufficientCredits",
                  "Posted 756"));
  EXPECT_THAT(scenario.run(release(99, slot(1, "u2"), {.reserved = at(20), .released = at(85)})),
              ElementsAre("Closed 1 amount 1170 total 1170 Starting[20,85)=1170", "Posted 1170"));
  EXPECT_EQ(account::balance(scenario.account()).pico(), 174);
  EXPECT_EQ(scenario.account().pending, Money());
  EXPECT_THAT(scenario.account().exhaustions, IsEmpty());
}

TEST(Account, ACapStopsAtItsLimitAndFlattensTheLine) {
  Scenario scenario;
  for (const auto& step :
       {credit(0, 5'000), offer(1, slot(1), Money::from_pico(900)), reserve(10, slot(1), 10)})
    scenario.run(step);
  EXPECT_THAT(scenario.run(judge(109, slot(1))), IsEmpty());
  EXPECT_THAT(scenario.run(judge(110, slot(1))),
              ElementsAre("CapReached 110", "StopOrdered 1 MaxCost", "Flattened at 110"));
  EXPECT_THAT(scenario.run(judge(111, slot(1))), IsEmpty());
  EXPECT_EQ(account::available(scenario.account(), kT0 + 500).pico(), 4'100);
}

Scenario capped(std::optional<Money> cap = Money::from_pico(900)) {  // at 110
  Scenario scenario;
  for (const auto& step : {credit(0, 50'000), offer(1, slot(1), cap), reserve(10, slot(1), 10)})
    scenario.run(step);
  return scenario;
}

TEST(Account, ACapRaisedInTimeCountsAtOnce) {
  auto scenario = capped();
  EXPECT_THAT(scenario.run(raise_cap(100, slot(1), 1'800)), ElementsAre("CapRaised 1800 to 210"));
  EXPECT_THAT(scenario.run(raise_cap(101, slot(1), 1'800)), IsEmpty());
  EXPECT_THAT(scenario.run(raise_cap(101, slot(1), 900)), IsEmpty());
  EXPECT_THAT(scenario.run(judge(110, slot(1))), IsEmpty());
  EXPECT_THAT(scenario.run(judge(210, slot(1))),
              ElementsAre("CapReached 210", "StopOrdered 1 MaxCost", "Flattened at 210"));
}

TEST(Account, ACapRaisedBeforeItsStopIsOrderedIsRunningAndPaid) {
  auto scenario = capped();
  EXPECT_THAT(scenario.run(raise_cap(111, slot(1), 1'800)), ElementsAre("CapRaised 1800 to 210"));
  EXPECT_THAT(scenario.run(judge(112, slot(1))), IsEmpty());
  EXPECT_THAT(scenario.run(release(120, slot(1), {.reserved = at(10), .released = at(120)})),
              ElementsAre("Closed 1 amount 990 total 990 Starting[10,120)=990", "Posted 990"));
}

TEST(Account, ACapRaisedAfterItsStopIsStoppedAndNotCharged) {
  auto scenario = capped();
  scenario.run(judge(110, slot(1)));
  EXPECT_THAT(scenario.run(raise_cap(111, slot(1), 1'800)), IsEmpty());
  EXPECT_THAT(
      scenario.run(release(120, slot(1), {.reserved = at(10), .released = at(120)})),
      ElementsAre("Closed 1 amount 900 total 900 Starting[10,110)=900 Starting[110,120)MaxCostReached",
                  "Posted 900"));
}

TEST(Account, ACapAddedBelowWhatItCostStopsItAndTakesNothingBack) {
  auto scenario = capped(std::nullopt);
  EXPECT_THAT(scenario.run(raise_cap(100, slot(1), 100)), ElementsAre("CapRaised 810 to 100"));
  EXPECT_THAT(scenario.run(judge(100, slot(1))),
              ElementsAre("CapReached 100", "StopOrdered 1 MaxCost", "Flattened at 100"));
}

TEST(Account, ACapRaisedBeforeTheSlotIsReserved) {
  Scenario scenario;
  scenario.run(credit(0, 50'000));
  scenario.run(offer(1, slot(1), Money::from_pico(900)));
  EXPECT_THAT(scenario.run(raise_cap(2, slot(1), 1'800)), ElementsAre("CapRaised 1800"));
  EXPECT_THAT(scenario.run(reserve(10, slot(1), 10)), testing::Contains("Opened 1 from 10 cap 210"));
}

TEST(Account, ASpentCapRefusesTheNextStart) {
  Scenario scenario;
  const auto cap = Money::from_pico(900);
  for (const auto& step : {credit(0, 5'000), offer(1, slot(1), cap), reserve(10, slot(1), 10),
                           release(50, slot(1), {.reserved = at(10), .released = at(50)})})
    scenario.run(step);
  EXPECT_THAT(scenario.run(offer(60, slot(2), cap)),
              ElementsAre("Refused 2 BudgetExceeded maxCostUSD hold 675 available 540"));
}

TEST(Account, ALateReleaseNeverTakesMoreThanIsPosted) {
  auto scenario = running_out();
  scenario.run(credit(11, 675, "g2"));
  scenario.run(offer(12, slot(1, "u2")));
  // u2's reservation is heard 400 s late, after u1 took nearly all.
  scenario.run(release(121, slot(1), {.reserved = at(10), .released = at(121)}));
  scenario.run(reserve(421, slot(1, "u2"), 21));
  scenario.run(release(422, slot(1, "u2"), {.reserved = at(21), .released = at(400)}));
  EXPECT_GE(account::balance(scenario.account()), Money());
  EXPECT_EQ(account::balance(scenario.account()).pico(), 1);
}

TEST(Account, CreditsArePostedOnce) {
  Scenario scenario;
  EXPECT_THAT(scenario.run(credit(0, 500)), ElementsAre("Credit 500", "FundsChanged"));
  EXPECT_THAT(scenario.run(credit(1, 500, "g1", Money::from_pico(500))), IsEmpty());
  EXPECT_THAT(scenario.run(credit(1, 501, "g1", Money::from_pico(500))), ElementsAre("error CreditIdReused"));
  EXPECT_THAT(scenario.run(credit(1, 0, "g2")), ElementsAre("error Invalid"));
}

TEST(Account, AThousandOffersAgainstCreditForSeven) {
  Scenario scenario;
  scenario.run(credit(0, 7 * 675 + 674));
  int funded = 0;
  for (int i = 0; i < 1'000; ++i) {
    const auto words = scenario.run(offer(1, slot(1, "u" + std::to_string(i))));
    if (words.front().starts_with("Funded")) ++funded;
  }
  EXPECT_EQ(funded, 7);
}

}  // namespace
}  // namespace nodus::metering::test
