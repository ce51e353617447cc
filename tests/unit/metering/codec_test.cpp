// Every event and state survives the trip; what cannot be read is an error.
#include "services/metering/adapters/codec/codec.hpp"

#include <gtest/gtest.h>

#include "nodus/scheduler/v1/events.pb.h"
#include "tests/unit/metering/scenario.hpp"

namespace nodus::metering::codec {
namespace {

using test::at;
using test::kT0;
using test::slot;

const Rate kRate = Rate::from_pico_per_second(5'833'125);
const Money kHold = Money::from_pico(437'484'375);

TEST(Codec, ChargeEventsSurvive) {
  const Times times{at(1), at(2.5), std::nullopt, std::nullopt};
  const std::vector<charge::Event> events = {
      charge::StartFunded{slot(3), "hello", "2026-01", kRate, kHold, Money::from_pico(7), at(1),
                          PricesUsed{Money::from_pico(1), Money::from_pico(2), Money::from_pico(3), "own-16",
                                     Money::from_pico(4), Shape{5, 6, 7}}},
      charge::StartFunded{slot(3), "hello", "2026-01", kRate, kHold, std::nullopt, at(1), std::nullopt},
      charge::StartRefused{slot(3), "BudgetExceeded", "maxCostUSD", kHold, Money(), at(1)},
      charge::OfferReleased{slot(3), at(2)},
      charge::ChargeOpened{slot(3), kRate, at(1.5), kT0 + 2, kT0 + 99, 4},
      charge::ChargeOpened{slot(3), kRate, at(1.5), kT0 + 2, std::nullopt, 0},
      charge::InstantsNoted{slot(3), times},
      charge::CapReached{slot(3), kT0 + 99},
      charge::StopOrdered{slot(3), charge::StopReason::kMaxCostReached, at(9)},
      charge::StopOrdered{slot(3), charge::StopReason::kInsufficientCredits, at(9)},
      charge::StopOrdered{slot(3), charge::StopReason::kBudgetExceeded, at(9)},
      charge::CapRaised{slot(3), kHold, kT0 + 97},
      charge::CapRaised{slot(3), kHold, std::nullopt},
      charge::PaidUntil{slot(3), kT0 + 98},
      charge::StopDeclined{slot(3), at(8)},
      charge::StorageOpened{slot(3), "hello", 1 << 20, "2026-01", kRate, kT0, 4, 5, Waiver::kUnsaid},
      charge::StorageOpened{slot(3), "hello", 0, "2026-01", kRate, kT0, 4, 5, Waiver::kBudgetExceeded},
      charge::StorageMetered{slot(3), kRate, kT0, kT0 + 9, kRate * 9, Waiver::kUnsaid, at(9)},
      charge::ChargeClosed{slot(3),
                           kRate,
                           {{LineKind::kStarting, kT0, kT0 + 2, kRate * 2, false},
                            {LineKind::kStopping, kT0 + 2, kT0 + 3, Money(), true},
                            {LineKind::kStopping, kT0 + 2, kT0 + 3, Money(), true, Waiver::kBudgetExceeded}},
                           kRate * 2,
                           kRate * 5,
                           kT0 + 3,
                           at(4)},
  };
  for (const auto& event : events) {
    const auto encoded = encode(event);
    const auto decoded = decode_charge(encoded.type, encoded.payload);
    ASSERT_TRUE(decoded) << encoded.type << decoded.error().message;
    EXPECT_TRUE(*decoded == event) << encoded.type;
  }
}

TEST(Codec, AccountEventsSurvive) {
  const OrgId org("acme");
  const SandboxUid uid("u1");
  const std::vector<account::Event> events = {
      account::CreditPosted{org, "g1", "Grant", kHold, "me", at(1)},
      account::CreditPosted{org, "g2", "Refund", -kHold, "me", at(1), 77, 3, Money::from_pico(4),
                            Money::from_pico(5)},
      account::CreditExpired{org, "g1", kHold, 77, Money::from_pico(9), 2},
      account::FirstPurchase{org, "p1", at(1)},
      account::HoldPlaced{org, uid, 3, kRate, kHold},
      account::HoldFreed{org, uid, 3, kHold},
      account::AccrualStarted{org, uid, 3, kRate, kT0, kHold},
      account::AccrualFlattened{org, uid, 3, kRate, kT0, kT0 + 9, kHold},
      account::BalanceExhausted{org, kT0 + 9},
      account::AccrualEnded{org, uid, 3, kT0 + 9, kHold, kRate, kT0, kHold, account::LineEnd::kExhausted,
                            kT0 + 8, 2},
      account::RefusalNoted{org, kHold},
      account::FundsChanged{org, at(2)},
  };
  for (const auto& event : events) {
    const auto encoded = encode(event);
    const auto decoded = decode_account(encoded.type, encoded.payload);
    ASSERT_TRUE(decoded) << encoded.type;
    EXPECT_TRUE(*decoded == event) << encoded.type;
  }
}

TEST(Codec, StatesSurvive) {
  test::Scenario scenario;
  const std::vector<test::Step> steps = {
      test::credit(0, 5'000),
      test::offer(1, slot(1), Money::from_pico(900)),
      test::reserve(10, slot(1), 10),
      test::note(11, slot(1), {.reserved = at(10), .started = at(11)}),
      test::note(12, slot(1), {.reserved = at(10), .stopping = at(12)}),
      test::decline(13, slot(1)),
      test::judge(110, slot(1)),
      test::offer(111, slot(1, "u2"), std::nullopt, 10'000'000),
      test::release(120, slot(1), {.reserved = at(10), .released = at(120)}),
      test::offer(130, slot(2)),
      test::reserve(131, slot(2), 131),
      test::judge_balance(900),
      test::judge(901, slot(2)),
  };
  for (const auto& step : steps) {
    scenario.run(step);
    EXPECT_TRUE(*decode_charge_state(encode_state(scenario.charge())) == scenario.charge());
    EXPECT_TRUE(*decode_account_state(encode_state(scenario.account())) == scenario.account());
  }
  EXPECT_EQ(scenario.account().exhaustions.size(), 1u);
}

TEST(Codec, UnknownTypesAreErrors) {
  EXPECT_EQ(decode_charge("nodus.metering.v9.New", "").error().reason, "EventTypeUnknown");
  EXPECT_EQ(decode_account("nodus.metering.v1.StartFunded", "").error().reason, "EventTypeUnknown");
  EXPECT_EQ(command_of("nodus.scheduler.v2.SlotOffered", "").error().reason, "EventTypeUnknown");
}

TEST(Codec, WhatDoesNotConcernMoneyIsNoCommand) {
  const auto command = command_of("nodus.scheduler.v1.MachineRegistered", "");
  ASSERT_TRUE(command);
  EXPECT_FALSE(command->has_value());
}

TEST(Codec, MalformedMessagesAreErrors) {
  nodus::scheduler::v1::SlotOffered offered;
  const auto reason = [&] {
    const auto command = command_of("nodus.scheduler.v1.SlotOffered", offered.SerializeAsString());
    return command ? std::string() : command.error().reason;
  };
  EXPECT_EQ(command_of("nodus.scheduler.v1.SlotOffered", "\xff\xff").error().reason, "MessageMalformed");
  EXPECT_EQ(reason(), "MessageMalformed");  // no slot
  offered.mutable_slot()->set_sandbox_uid("u1");
  offered.mutable_slot()->set_org("acme");
  offered.mutable_slot()->set_start(1);
  EXPECT_EQ(reason(), "");
  offered.set_max_cost_usd("5,00");
  EXPECT_EQ(reason(), "FieldValueInvalid");
  offered.set_max_cost_usd("5.00");
  offered.mutable_shape()->set_cpu_milli(-1);
  EXPECT_EQ(reason(), "MessageMalformed");
}

TEST(Codec, UnknownFieldsAreIgnored) {
  const auto encoded = encode(charge::Event(charge::OfferReleased{slot(1), at(1)}));
  const std::string extra = "\xf2\x3f\x03new";  // field 1022, three bytes
  EXPECT_TRUE(decode_charge(encoded.type, encoded.payload + extra));
}

}  // namespace
}  // namespace nodus::metering::codec
