// What each message does to a start, in each state it can find: one case a line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metering/scenario.hpp"

namespace nodus::metering::test {
namespace {

struct Case {
  std::string name;
  std::vector<Step> given;
  Step when;
  std::vector<std::string> then;
};

const Times kReservedOnly{.reserved = at(10)};
const Times kStarted{.reserved = at(10), .started = at(12.5)};
const Times kStopping{.reserved = at(10), .started = at(12.5), .stopping = at(30)};
const Times kWhole{.reserved = at(10), .started = at(12.5), .stopping = at(30), .released = at(31.2)};
const std::vector<std::string> kNothing;

std::vector<Step> funded() {
  return {credit(0, 10'000), offer(1, slot(1))};
}
std::vector<Step> open() {
  return {credit(0, 10'000), offer(1, slot(1)), reserve(10, slot(1), 10)};
}
std::vector<Step> stopping() {
  return {credit(0, 10'000), offer(1, slot(1)), reserve(10, slot(1), 10), note(31, slot(1), kStopping)};
}
std::vector<Step> declined() {
  return {credit(0, 10'000), offer(1, slot(1)), reserve(10, slot(1), 10), note(31, slot(1), kStopping),
          decline(32, slot(1))};
}
std::vector<Step> closed() {
  return {credit(0, 10'000), offer(1, slot(1)), reserve(10, slot(1), 10), release(32, slot(1), kWhole)};
}
std::vector<Step> lapsed() {
  return {credit(0, 10'000), offer(1, slot(1)), lapse(5, slot(1))};
}
std::vector<Step> refused() {
  return {credit(0, 100), offer(1, slot(1))};
}

const std::vector<Case> kCases = {
    // SlotOffered
    {"offer_idle", {credit(0, 10'000)}, offer(1, slot(1)), {"Funded 1 rate 9 hold 675", "Hold 675"}},
    {"offer_broke",
     {},
     offer(1, slot(1)),
     {"Refused 1 InsufficientCredits balance hold 675 available 0", "Noted 675"}},
    {"offer_short_by_one",
     {credit(0, 674)},
     offer(1, slot(1)),
     {"Refused 1 InsufficientCredits balance hold 675 available 674", "Noted 675"}},
    {"offer_exact", {credit(0, 675)}, offer(1, slot(1)), {"Funded 1 rate 9 hold 675", "Hold 675"}},
    {"offer_cap_short",
     {credit(0, 10'000)},
     offer(1, slot(1), Money::from_pico(674)),
     {"Refused 1 BudgetExceeded maxCostUSD hold 675 available 674"}},
    {"offer_cap_exact",
     {credit(0, 10'000)},
     offer(1, slot(1), Money::from_pico(675)),
     {"Funded 1 rate 9 hold 675", "Hold 675"}},
    {"offer_twice", funded(), offer(2, slot(1)), kNothing},
    {"offer_refused_twice", refused(), offer(2, slot(1)), kNothing},
    {"offer_while_open", open(), offer(11, slot(1)), kNothing},
    {"offer_stale", closed(), offer(40, slot(1)), kNothing},
    {"offer_next", closed(), offer(40, slot(2)), {"Funded 2 rate 9 hold 675", "Hold 675"}},
    {"offer_next_while_funded",
     funded(),
     offer(2, slot(2)),
     {"OfferReleased 1", "Funded 2 rate 9 hold 675", "HoldFreed 675", "Hold 675"}},
    {"offer_next_while_open", open(), offer(11, slot(2)), {"error IntervalStillOpen"}},
    {"offer_counts_running_holds",
     {credit(0, 1'500), offer(1, slot(1)), reserve(10, slot(1), 10)},
     offer(20, slot(1, "u2")),
     {"Funded 1 rate 9 hold 675", "Hold 675"}},
    {"offer_counts_what_accrued",
     {credit(0, 1'500), offer(1, slot(1)), reserve(10, slot(1), 10)},
     offer(30, slot(1, "u2")),
     {"Refused 1 InsufficientCredits balance hold 675 available 645", "Noted 675"}},
    // OfferLapsed
    {"lapse_idle", {}, lapse(5, slot(1)), kNothing},
    {"lapse_funded", funded(), lapse(5, slot(1)), {"OfferReleased 1", "HoldFreed 675"}},
    {"lapse_twice", lapsed(), lapse(6, slot(1)), kNothing},
    {"lapse_refused", refused(), lapse(5, slot(1)), kNothing},
    {"lapse_open", open(), lapse(12, slot(1)), kNothing},
    {"lapse_closed", closed(), lapse(40, slot(1)), kNothing},
    {"lapse_other_start", funded(), lapse(5, slot(2)), kNothing},
    {"lapse_tells_the_refused",
     {credit(0, 1'000), offer(1, slot(1)), offer(2, slot(1, "u2"))},
     lapse(5, slot(1)),
     {"OfferReleased 1", "HoldFreed 675", "FundsChanged"}},
    // SlotReserved
    {"reserve_idle", {}, reserve(10, slot(1), 10), {"error ReservedWithoutFunding"}},
    {"reserve_funded", funded(), reserve(10, slot(1), 10), {"Opened 1 from 10", "Accrual 9 from 10"}},
    {"reserve_rounds_up",
     funded(),
     reserve(10, slot(1), 10.000001),
     {"Opened 1 from 11", "Accrual 9 from 11"}},
    {"reserve_with_cap",
     {credit(0, 10'000), offer(1, slot(1), Money::from_pico(910))},
     reserve(10, slot(1), 10),
     {"Opened 1 from 10 cap 111", "Accrual 9 from 10"}},
    {"reserve_twice", open(), reserve(11, slot(1), 10), kNothing},
    {"reserve_closed", closed(), reserve(40, slot(1), 10), kNothing},
    {"reserve_lapsed", lapsed(), reserve(10, slot(1), 10), {"error ReservedWithoutFunding"}},
    {"reserve_refused", refused(), reserve(10, slot(1), 10), {"error ReservedWithoutFunding"}},
    {"reserve_before_previous_end",
     {credit(0, 10'000), offer(1, slot(1)), reserve(10, slot(1), 10), release(32, slot(1), kWhole),
      offer(33, slot(2))},
     reserve(34, slot(2), 31.5),
     {"Opened 2 from 32", "Accrual 9 from 32"}},
    // SandboxStarted, SlotStopping
    {"note_idle", {}, note(13, slot(1), kStarted), kNothing},
    {"note_funded", funded(), note(13, slot(1), kStarted), kNothing},
    {"note_open", open(), note(13, slot(1), kStarted), {"Noted 1 started"}},
    {"note_repeat",
     {credit(0, 10'000), offer(1, slot(1)), reserve(10, slot(1), 10), note(13, slot(1), kStarted)},
     note(14, slot(1), kStarted),
     kNothing},
    {"note_stopping", open(), note(31, slot(1), kStopping), {"Noted 1 started stopping"}},
    {"note_closed", closed(), note(40, slot(1), kStarted), kNothing},
    // StopDeclined
    {"decline_idle", {}, decline(32, slot(1)), kNothing},
    {"decline_funded", funded(), decline(32, slot(1)), kNothing},
    {"decline_running", open(), decline(32, slot(1)), kNothing},
    {"decline_stopping", stopping(), decline(32, slot(1)), {"Declined 1"}},
    {"decline_twice", declined(), decline(33, slot(1)), kNothing},
    {"decline_other_start", stopping(), decline(32, slot(2)), kNothing},
    {"decline_closed", closed(), decline(40, slot(1)), kNothing},
    {"decline_then_the_old_stop_again", declined(), note(33, slot(1), kStopping), kNothing},
    {"decline_then_another_stop",
     declined(),
     note(41, slot(1), {.reserved = at(10), .started = at(12.5), .stopping = at(40)}),
     {"Noted 1 started stopping"}},
    {"decline_then_release",
     declined(),
     release(50, slot(1), {.reserved = at(10), .started = at(12.5), .stopping = at(40), .released = at(42)}),
     {"Closed 1 amount 288 total 288 Starting[10,13)=27 Running[13,40)=243 Stopping[40,42)=18",
      "Posted 288"}},
    {"decline_then_crash",
     declined(),
     release(50, slot(1), {.reserved = at(10), .started = at(12.5), .released = at(42)}),
     {"Closed 1 amount 288 total 288 Starting[10,13)=27 Running[13,42)=261", "Posted 288"}},
    // SlotReleased
    {"release_idle", {}, release(32, slot(1), kWhole), {"error ReservedWithoutFunding"}},
    {"release_never_reserved", {}, release(32, slot(1), {.released = at(31)}), kNothing},
    {"release_funded_unreserved",
     funded(),
     release(32, slot(1), {.released = at(31)}),
     {"OfferReleased 1", "HoldFreed 675"}},
    {"release_funded_reserved",
     funded(),
     release(32, slot(1), kWhole),
     {"Opened 1 from 10",
      "Closed 1 amount 198 total 198 Starting[10,13)=27 Running[13,30)=153 Stopping[30,32)=18",
      "Accrual 9 from 10", "Posted 198"}},
    {"release_open",
     open(),
     release(32, slot(1), kWhole),
     {"Closed 1 amount 198 total 198 Starting[10,13)=27 Running[13,30)=153 Stopping[30,32)=18",
      "Posted 198"}},
    {"release_never_started",
     open(),
     release(32, slot(1), {.reserved = at(10), .released = at(20)}),
     {"Closed 1 amount 90 total 90 Starting[10,20)=90", "Posted 90"}},
    {"release_stopped_while_starting",
     open(),
     release(32, slot(1), {.reserved = at(10), .stopping = at(15), .released = at(20)}),
     {"Closed 1 amount 90 total 90 Starting[10,15)=45 Stopping[15,20)=45", "Posted 90"}},
    {"release_crashed",
     open(),
     release(32, slot(1), {.reserved = at(10), .started = at(12), .released = at(20)}),
     {"Closed 1 amount 90 total 90 Starting[10,12)=18 Running[12,20)=72", "Posted 90"}},
    {"release_at_once",
     open(),
     release(32, slot(1), {.reserved = at(10), .released = at(10)}),
     {"Closed 1 amount 0 total 0", "Posted 0"}},
    {"release_before_started_node_lost",
     open(),
     release(32, slot(1), {.reserved = at(10), .started = at(25), .stopping = at(30), .released = at(20)}),
     {"Closed 1 amount 90 total 90 Starting[10,20)=90", "Posted 90"}},
    {"release_without_instant", open(), release(32, slot(1), kReservedOnly), {"error InstantMissing"}},
    {"release_twice", closed(), release(40, slot(1), kWhole), kNothing},
    {"release_other_start", open(), release(32, slot(3), {.released = at(20)}), kNothing},
    {"release_lapsed", lapsed(), release(32, slot(1), {.released = at(20)}), kNothing},
    {"release_keeps_noted_instants",
     {credit(0, 10'000), offer(1, slot(1)), reserve(10, slot(1), 10), note(13, slot(1), kStarted)},
     release(32, slot(1), {.reserved = at(10), .released = at(20)}),
     {"Closed 1 amount 90 total 90 Starting[10,13)=27 Running[13,20)=63", "Posted 90"}},
    {"release_past_the_cap",
     {credit(0, 10'000), offer(1, slot(1), Money::from_pico(910)), reserve(10, slot(1), 10)},
     release(130, slot(1), {.reserved = at(10), .started = at(20), .stopping = at(112), .released = at(115)}),
     {"CapReached 111",
      "Closed 1 amount 909 total 909 Starting[10,20)=90 Running[20,111)=819 Running[111,112)MaxCostReached "
      "Stopping[112,115)MaxCostReached",
      "Flattened at 111", "Posted 909"}},
};

class ChargeTable : public testing::TestWithParam<Case> {};

TEST_P(ChargeTable, Then) {
  Scenario scenario;
  for (const auto& step : GetParam().given) scenario.run(step);
  EXPECT_THAT(scenario.run(GetParam().when), testing::ElementsAreArray(GetParam().then));
}

INSTANTIATE_TEST_SUITE_P(All, ChargeTable, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Charge, WhatThePlatformRestartsPaysTheLowerRateAndOnlyForRunning) {
  Scenario scenario;
  for (const auto& step : {credit(0, 50'000), offer(1, slot(1)), reserve(10, slot(1), 10),
                           release(50, slot(1), {.reserved = at(10), .started = at(10), .released = at(50)})})
    scenario.run(step);
  scenario.context.price = simple_price();
  scenario.context.price->cpu_per_vcpu_s = Money::from_pico(80);
  const Step again{51,
                   Command(JudgeOffer{
                       .slot = slot(2), .sandbox_name = "hello", .shape = {1'000, 0, 0}, .recovery = true})};
  EXPECT_THAT(scenario.run(again), testing::Contains("Funded 2 rate 9 hold 675"));
  scenario.run(reserve(55, slot(2), 55));
  EXPECT_THAT(
      scenario.run(release(99, slot(2),
                           {.reserved = at(55), .started = at(60), .stopping = at(80), .released = at(90)})),
      testing::Contains("Closed 2 amount 180 total 540 Starting[55,60)PlatformRecovery Running[60,80)=180 "
                        "Stopping[80,90)PlatformRecovery"));
  EXPECT_EQ(scenario.budget().total.spent.pico(), 540);
  EXPECT_EQ(scenario.budget().month.spent.pico(), 540);
}

// Seconds that are waived use up none of its maxCostUSD, whenever it is heard that it is Running.
TEST(Charge, TheCapOfARecoveryCountsFromRunningOn) {
  const Times times{.reserved = at(10), .started = at(30), .released = at(150)};
  for (const bool heard : {true, false}) {
    Scenario scenario;
    scenario.run(credit(0, 50'000));
    scenario.run({1, Command(JudgeOffer{.slot = slot(1),
                                        .sandbox_name = "hello",
                                        .shape = {1'000, 0, 0},
                                        .max_cost = Money::from_pico(900),  // at 9 a second
                                        .recovery = true})});
    scenario.run(reserve(10, slot(1), 10));
    EXPECT_FALSE(scenario.charge().current->cap_s.has_value());
    if (heard) {
      scenario.run(note(31, slot(1), times));
      EXPECT_EQ(scenario.charge().current->cap_s, to_money_second(at(130)));
    }
    EXPECT_THAT(scenario.run(release(151, slot(1), times)),
                testing::Contains("Closed 1 amount 900 total 900 Starting[10,30)PlatformRecovery "
                                  "Running[30,130)=900 Running[130,150)MaxCostReached"));
  }
}

}  // namespace
}  // namespace nodus::metering::test
