// Budgets of a project: limits, months, thresholds, and what a change of one does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metering/scenario.hpp"

namespace nodus::metering::test {
namespace {

using budget::Period;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr MoneySecond kFebruary = 1'801'440'000 - kT0;  // 2027-02-01T00:00:00Z, after kT0

// 1 vCPU (9 pico a second) from second 10 on, with money for ever and a Budget of 900: 100 seconds, to 110.
Scenario limited(Period period = Period::kTotal, std::vector<int> thresholds = {}) {
  Scenario scenario;
  for (const auto& step : {credit(0, 1'000'000'000), put_budget(0, "b", 900, period, true, thresholds),
                           offer(1, slot(1)), reserve(10, slot(1), 10)})
    scenario.run(step);
  return scenario;
}

TEST(Budget, EndsEveryLineOfItsProjectAtItsLimit) {
  auto scenario = limited();
  EXPECT_EQ(budget::ends_at(scenario.budget()), kT0 + 110);
  EXPECT_EQ(budget::next_deadline(scenario.budget(), at(0)), at(110));
  EXPECT_THAT(scenario.run(judge_budget(109)), IsEmpty());
  EXPECT_THAT(scenario.run(judge_budget(110)), ElementsAre("Flattened 1 lines at 110", "b exhausted at 110"));
  EXPECT_THAT(scenario.run(judge(110, slot(1))), ElementsAre("PaidUntil 110", "StopOrdered 1 Budget"));
  EXPECT_THAT(scenario.run(judge(111, slot(1))), IsEmpty());
  EXPECT_THAT(
      scenario.run(release(120, slot(1), {.reserved = at(10), .released = at(115)})),
      ElementsAre("Closed 1 amount 900 total 900 Starting[10,110)=900 Starting[110,115)BudgetExceeded",
                  "Posted 900"));
  EXPECT_THAT(scenario.budget().exhaustions, IsEmpty());
  EXPECT_EQ(scenario.budget().total.pending, Money());
  EXPECT_EQ(scenario.account().pending, Money());
}

TEST(Budget, RefusesWithItsNumbers) {
  auto scenario = limited();
  EXPECT_THAT(scenario.run(offer(20, slot(1, "u2"))),
              ElementsAre("Refused 1 BudgetExceeded budget/b hold 675 available 135", "Budget noted 675"));
}

TEST(Budget, TheTightestRefusesAndEndsFirst) {
  auto scenario = limited();
  scenario.run(put_budget(11, "a", 800));
  EXPECT_THAT(scenario.run(offer(20, slot(1, "u2"))),
              testing::Contains("Refused 1 BudgetExceeded budget/a hold 675 available 35"));
  EXPECT_THAT(scenario.run(judge_budget(98)), ElementsAre("Flattened 1 lines at 98", "a exhausted at 98"));
}

TEST(Budget, CountsWhatWasSpentBeforeItWasMade) {
  Scenario scenario;
  for (const auto& step : {credit(0, 1'000'000), offer(1, slot(1)), reserve(10, slot(1), 10),
                           release(60, slot(1), {.reserved = at(10), .released = at(60)})})
    scenario.run(step);
  scenario.run(put_budget(61, "b", 1'000));
  EXPECT_THAT(scenario.run(offer(62, slot(2))),
              testing::Contains("Refused 2 BudgetExceeded budget/b hold 675 available 550"));
}

TEST(Budget, LoweredBelowWhatIsSpentStopsAtOnceAndChargesWhatWasUsed) {
  auto scenario = limited();
  EXPECT_THAT(scenario.run(change_budget(50, "b", 100)),
              ElementsAre("Flattened 1 lines at 50", "Set b 100", "b exhausted at 50"));
  EXPECT_THAT(scenario.run(judge(50, slot(1))), ElementsAre("PaidUntil 50", "StopOrdered 1 Budget"));
  EXPECT_THAT(scenario.run(release(60, slot(1), {.reserved = at(10), .released = at(55)})),
              ElementsAre("Closed 1 amount 360 total 360 Starting[10,50)=360 Starting[50,55)BudgetExceeded",
                          "Posted 360"));
}

TEST(Budget, RaisedInTimeItMovesTheEndAndWakesWhatWasRefused) {
  auto scenario = limited();
  scenario.run(offer(20, slot(1, "u2")));
  EXPECT_THAT(scenario.run(change_budget(30, "b", 2'000)), ElementsAre("Set b 2000", "BudgetFundsChanged"));
  EXPECT_EQ(budget::ends_at(scenario.budget()), kT0 + 10 + 222);
  EXPECT_THAT(scenario.run(judge_budget(110)), IsEmpty());
}

TEST(Budget, RaisedTooLateItDoesNotPayForWhatWasWaived) {
  auto scenario = limited();
  EXPECT_THAT(scenario.run(change_budget(112, "b", 5'000)),
              ElementsAre("Flattened 1 lines at 110", "b exhausted at 110", "Set b 5000"));
  EXPECT_THAT(scenario.run(judge(113, slot(1))), ElementsAre("PaidUntil 110", "StopOrdered 1 Budget"));
  EXPECT_EQ(scenario.budget().budgets[0].exhausted_s, std::nullopt);
  scenario.run(release(114, slot(1), {.reserved = at(10), .released = at(114)}));
  EXPECT_EQ(scenario.budget().total.spent.pico(), 900);
}

TEST(Budget, AMonthBeginsAtZeroWithWhatRuns) {
  auto scenario = limited(Period::kMonthly);
  scenario.run(change_budget(11, "b", 9 * (kFebruary + 100), Period::kMonthly));
  EXPECT_EQ(budget::ends_at(scenario.budget()), std::nullopt);
  EXPECT_EQ(budget::next_deadline(scenario.budget(), at(20)), at(kFebruary));
  scenario.run(judge_budget(kFebruary));
  EXPECT_EQ(scenario.budget().month_s, kT0 + kFebruary);
  EXPECT_EQ(budget::spent(scenario.budget(), scenario.budget().budgets[0], kT0 + kFebruary + 5).pico(), 45);
  EXPECT_EQ(budget::ends_at(scenario.budget()), kT0 + kFebruary + kFebruary + 100);
  // Closed late: only its seconds of the month count.
  scenario.run(release(kFebruary + 30, slot(1), {.reserved = at(10), .released = at(kFebruary + 20)}));
  EXPECT_EQ(scenario.budget().month.spent.pico(), 180);
  EXPECT_EQ(scenario.budget().total.spent.pico(), 9 * (kFebruary + 10));
}

TEST(Budget, ANewMonthWakesWhatWasRefused) {
  auto scenario = limited(Period::kMonthly);
  scenario.run(judge_budget(110));
  scenario.run(release(111, slot(1), {.reserved = at(10), .released = at(111)}));
  scenario.run(offer(120, slot(2)));
  EXPECT_THAT(scenario.run(judge_budget(kFebruary)), ElementsAre("BudgetFundsChanged"));
  EXPECT_THAT(scenario.run(offer(kFebruary, slot(3))), testing::Contains("Hold 675"));
}

TEST(Budget, TellsEachThresholdOnceAndItsRecovery) {
  auto scenario = limited(Period::kMonthly, {50, 80, 100});
  EXPECT_EQ(budget::next_deadline(scenario.budget(), at(0)), at(60));
  EXPECT_THAT(scenario.run(judge_budget(60)), ElementsAre("b reached 50 at 60 with 450"));
  EXPECT_THAT(scenario.run(judge_budget(70)), IsEmpty());
  EXPECT_THAT(scenario.run(judge_budget(95)), ElementsAre("b reached 80 at 90 with 720"));
  EXPECT_THAT(scenario.run(change_budget(96, "b", 1'500, Period::kMonthly, {50, 80, 100})),
              ElementsAre("Set b 1500", "b recovered to 50 at 96 with 774"));
  EXPECT_THAT(scenario.run(judge_budget(150)), ElementsAre("b reached 80 at 144 with 1206"));
  EXPECT_THAT(scenario.run(judge_budget(200)), ElementsAre("Flattened 1 lines at 176", "b exhausted at 176",
                                                           "b reached 100 at 176 with 1494"));
  EXPECT_THAT(scenario.run(judge_budget(kFebruary)),
              ElementsAre(testing::StartsWith("b recovered to 0 at 1440000")));
}

TEST(Budget, AnotherProjectGoesOn) {
  auto scenario = limited();
  auto other = slot(1, "x1");
  other.project = ProjectId("api");
  scenario.run(offer(11, other));
  scenario.run(reserve(12, other, 12));
  scenario.run(judge_budget(110));
  EXPECT_EQ(scenario.account().rate, Rate::from_pico_per_second(9));
  EXPECT_THAT(scenario.run(judge(200, other)), IsEmpty());
  EXPECT_THAT(scenario.run(release(210, other, {.reserved = at(12), .released = at(200)})),
              testing::Contains("Posted 1692"));
}

TEST(Budget, ABalanceThatEndsFirstEndsTheProjectsLines) {
  Scenario scenario;
  for (const auto& step : {credit(0, 1'000), put_budget(0, "b", 5'000), offer(1, slot(1)),
                           reserve(10, slot(1), 10), judge_balance(122), credit(130, 90'000, "g2")})
    scenario.run(step);
  EXPECT_THAT(scenario.run(offer(131, slot(1, "u2"))), testing::Contains("Hold 675"));
  scenario.run(reserve(132, slot(1, "u2"), 132));
  ASSERT_EQ(scenario.budget().exhaustions.size(), 1u);
  EXPECT_EQ(scenario.budget().exhaustions[0].at_s, kT0 + 121);
  EXPECT_FALSE(scenario.budget().exhaustions[0].by_budget);
  scenario.run(release(140, slot(1), {.reserved = at(10), .released = at(140)}));
  EXPECT_EQ(scenario.budget().total.spent.pico(), 999);
  EXPECT_EQ(scenario.budget().total.pending, Money());
  EXPECT_THAT(scenario.budget().exhaustions, IsEmpty());
}

TEST(Budget, IsMadeOnceAndOnlyWithinBounds) {
  Scenario scenario;
  EXPECT_THAT(scenario.run(put_budget(0, "b", 900)), ElementsAre("Set b 900"));
  EXPECT_THAT(scenario.run(put_budget(1, "b", 900)), IsEmpty());
  EXPECT_THAT(scenario.run(put_budget(1, "b", 901)), ElementsAre("error AlreadyExists"));
  EXPECT_THAT(scenario.run(change_budget(1, "c", 901)), ElementsAre("error NotFound"));
  EXPECT_THAT(scenario.run(delete_budget(1, "c")), ElementsAre("error NotFound"));
  for (int i = 1; i < 20; ++i) scenario.run(put_budget(2, "n" + std::to_string(i), 900));
  EXPECT_THAT(scenario.run(put_budget(3, "one-more", 900)), ElementsAre("error TooManyBudgets"));
  EXPECT_THAT(scenario.run(delete_budget(4, "b")), ElementsAre("Deleted b"));
}

TEST(Budget, AThousandOffersAgainstABudgetForSeven) {
  Scenario scenario;
  scenario.run(credit(0, 1'000'000'000));
  scenario.run(put_budget(0, "b", 7 * 675 + 674));
  int funded = 0;
  for (int i = 0; i < 1'000; ++i)
    funded += scenario.run(offer(1, slot(1, "u" + std::to_string(i)))).front().starts_with("Funded");
  EXPECT_EQ(funded, 7);
}

TEST(Budget, WithTheBrakeOnNothingEnds) {
  auto scenario = limited();
  scenario.context.brake = true;
  EXPECT_THAT(scenario.run(judge_budget(200)), IsEmpty());
  EXPECT_THAT(scenario.run(judge(200, slot(1))), IsEmpty());
  scenario.context.brake = false;
  EXPECT_THAT(
      scenario.run(judge(201, slot(1))),
      ElementsAre("PaidUntil 110", "StopOrdered 1 Budget", "Flattened 1 lines at 110", "b exhausted at 110"));
}

}  // namespace
}  // namespace nodus::metering::test
