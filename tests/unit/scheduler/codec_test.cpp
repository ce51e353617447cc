#include "services/scheduler/adapters/codec/codec.hpp"

#include <gtest/gtest.h>

#include <set>

#include "nodus/lifecycle/v1/events.pb.h"
#include "nodus/metering/v1/events.pb.h"
#include "nodus/node/v1/channel.pb.h"
#include "nodus/scheduler/v1/events.pb.h"
#include "tests/unit/scheduler/given.hpp"

namespace nodus::scheduler::test {
namespace {

const SlotRef kSlot{SandboxUid("u1"), 2, 3, OrgId("acme"), ProjectId("web")};
const Times kTimes{kT0, kT0 + Seconds(1), kT0 + Seconds(2), kT0 + Seconds(3)};

Order full_order() {
  Order o = order(2);
  o.image_digest = "sha256:abc";
  o.egress_policy = "Deny";
  o.working_dir = "/workspace";
  o.max_cost_usd = "1.00";
  o.spent_usd = "0.25";
  o.restore_point = restore_point();
  return o;
}

TEST(SlotCodec, EveryEventComesBackAsItWas) {
  const std::vector<SlotEvent> events = {
      Planned{full_order()},
      Offered{kSlot, order(2).shape, "Shared", "1.00", "0.25", "hello", kT0 + kTtl, kT0},
      Waiting{kSlot, kT0},
      Lapsed{kSlot, LapseReason::kRefused, StopReason::kNone, kT0},
      Lapsed{kSlot, LapseReason::kExpired, StopReason::kNone, kT0},
      Lapsed{kSlot, LapseReason::kStopped, StopReason::kIdle, kT0},
      Lapsed{kSlot, LapseReason::kDeleted, StopReason::kDelete, kT0},
      Lapsed{kSlot, LapseReason::kNoCapacity, StopReason::kNone, kT0},
      Reserved{kSlot, kMachine, "10.0.0.1:7410", kTimes},
      Started{kSlot, "runsc", kTimes},
      Stopping{kSlot, StopReason::kIdle, kT0, kTimes},
      Declined{kSlot, kT0},
      RestorePointReleased{kSlot, kT0},
      CapRaised{kSlot, "2.50", kT0},
      Released{kSlot, StopReason::kUser, "Crashed", "why", restore_point(), kTimes},
      Released{kSlot, StopReason::kNone, "", "", std::nullopt, kTimes},
  };
  for (const auto& event : events) {
    const auto encoded = SlotCodec::encode(event);
    EXPECT_TRUE(encoded.type.starts_with("nodus.scheduler.v1."));
    const auto back = SlotCodec::decode(encoded.type, encoded.payload);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, event) << encoded.type;
  }
  EXPECT_EQ(SlotCodec::decode("nodus.scheduler.v1.Novelty", "").error().reason, "UnknownEventType");
  EXPECT_EQ(SlotCodec::decode("nodus.scheduler.v1.SlotOffered", "\xff").error().reason, "UndecodableMessage");
}

TEST(SlotCodec, ReplayedEventsGiveTheStateOfTheHeadRow) {
  SlotState head, replayed;
  SlotContext room{kT0, kTtl, kRoom}, full{kT0, kTtl, std::nullopt};
  Report running{kMachine, 1, NodeSays::kRunning};
  running.runtime = "runsc";
  Report declined{kMachine, 1, NodeSays::kDeclined};
  declined.last_activity = kT0 + Seconds(1);
  declined.declined = kT0;
  const std::vector<std::pair<SlotCommand, SlotContext>> story = {{PlanStart{full_order()}, full},
                                                                  {Fund{2}, full},
                                                                  {Place{2}, room},
                                                                  {running, full},
                                                                  {Stop{2, StopReason::kIdle, kT0}, full},
                                                                  {declined, full},
                                                                  {Stop{2, StopReason::kUser, {}}, full}};
  for (const auto& [command, context] : story) {
    const auto events = SlotAggregate::decide(head, command, context);
    ASSERT_TRUE(events);
    ASSERT_FALSE(events->empty());
    for (const auto& e : *events) {
      SlotAggregate::evolve(head, e);
      const auto encoded = SlotCodec::encode(e);
      SlotAggregate::evolve(replayed, *SlotCodec::decode(encoded.type, encoded.payload));
    }
    EXPECT_EQ(replayed, head);
    EXPECT_EQ(SlotCodec::decode_state(SlotCodec::encode_state(head)), head);
  }
}

TEST(MachineCodec, EventsAndStateComeBackAsTheyWere) {
  const std::vector<MachineEvent> events = {
      MachineRegistered{kMachine, OrgId("acme"), {1, 2, 3}, "h:1", "runsc", "boot", kT0},
      CapacityTaken{kMachine, SandboxUid("u1"), 3, {1, 1, 1}},
      CapacityTaken{kMachine, SandboxUid("u2"), 1, {0, 1, 2}}, CapacityFreed{kMachine, SandboxUid("u1"), 3},
      MachineLost{kMachine, "boot", kT0}};
  MachineState state;
  for (const auto& event : events) {
    const auto encoded = MachineCodec::encode(event);
    const auto back = MachineCodec::decode(encoded.type, encoded.payload);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, event);
    MachineAggregate::evolve(state, event);
    EXPECT_EQ(MachineCodec::decode_state(MachineCodec::encode_state(state)), state);
  }
  EXPECT_EQ(MachineCodec::decode("nodus.scheduler.v1.SlotOffered", "").error().reason, "UnknownEventType");
}

// Every message that a neighbour's schema holds is either handled or listed as none of ours: a new one fails
// here.
template <class Known, class From>
void every_event_is_decided(From from, const std::set<std::string>& parts) {
  const auto* file = Known::descriptor()->file();
  for (int i = 0; i < file->message_type_count(); ++i) {
    if (parts.contains(file->message_type(i)->name())) continue;
    const auto result = from(file->message_type(i)->full_name(), "");
    if (!result) EXPECT_NE(result.error().reason, "UnknownEventType") << file->message_type(i)->full_name();
  }
  EXPECT_EQ(from("nodus.other.v1.Novelty", "").error().reason, "UnknownEventType");
}

TEST(Inputs, EveryEventOfTheNeighboursIsDecided) {
  every_event_is_decided<lifecycle::v1::StartRequested>(codec::from_lifecycle, {"SandboxSpec"});
  every_event_is_decided<metering::v1::StartFunded>(codec::from_metering, {"ChargeLine", "PricesUsed"});
}

TEST(Inputs, CommandsOfTheNeighbours) {
  lifecycle::v1::StopRequested stop;
  stop.set_uid("u1");
  stop.set_start(4);
  stop.set_reason(common::v1::STOP_REASON_IDLE);
  stop.set_idle_since_us(7);
  auto input = codec::from_lifecycle(stop.GetTypeName(), stop.SerializeAsString());
  ASSERT_TRUE(input && *input);
  EXPECT_EQ((*input)->sandbox, SandboxUid("u1"));
  const auto& command = std::get<Stop>((*input)->command);
  EXPECT_EQ(command.start, 4);
  EXPECT_EQ(command.reason, StopReason::kIdle);
  EXPECT_EQ(command.idle_since, from_micros(7));

  metering::v1::StartFunded funded;
  funded.mutable_slot()->set_sandbox_uid("u1");
  funded.mutable_slot()->set_start(4);
  auto fund = codec::from_metering(funded.GetTypeName(), funded.SerializeAsString());
  ASSERT_TRUE(fund && *fund);
  EXPECT_EQ(std::get<Fund>((*fund)->command).start, 4);

  lifecycle::v1::StartRequested shapeless;
  shapeless.set_uid("u1");
  shapeless.set_start(1);
  shapeless.set_org("acme");
  EXPECT_EQ(codec::from_lifecycle(shapeless.GetTypeName(), shapeless.SerializeAsString()).error().reason,
            "InvalidStart");
  EXPECT_EQ(codec::from_metering(funded.GetTypeName(), "").error().reason, "InvalidSandboxUid");
}

node::v1::SyncRequest good_sync() {
  node::v1::SyncRequest m;
  m.set_machine("m1");
  m.set_incarnation("boot-1");
  m.set_data_path("10.0.0.1:7410");
  m.mutable_capacity()->set_cpu_milli(1000);
  m.mutable_capacity()->set_memory_bytes(1 << 30);
  m.mutable_capacity()->set_disk_bytes(1 << 30);
  m.set_runtime("runsc");
  m.set_profile("production");
  m.set_seen_version(5);
  auto* slot = m.add_slots();
  slot->set_sandbox_uid("u1");
  slot->set_epoch(3);
  slot->set_phase(node::v1::SLOT_PHASE_FAILED);
  slot->set_failure("StartFailed");
  return m;
}

TEST(NodeMessages, ASyncIsReadWhole) {
  const auto sync = codec::from_sync(good_sync().SerializeAsString());
  ASSERT_TRUE(sync) << sync.error().message;
  EXPECT_EQ(sync->machine, kMachine);
  EXPECT_EQ(sync->seen_version, 5);
  ASSERT_EQ(sync->slots.size(), 1u);
  EXPECT_EQ(sync->slots[0].report.says, NodeSays::kFailed);
  EXPECT_EQ(sync->slots[0].report.machine, kMachine);
  EXPECT_EQ(sync->slots[0].report.runtime, "runsc");
}

TEST(NodeMessages, EveryFaultOfASyncIsNamed) {
  auto m = good_sync();
  m.set_machine("No Label");
  m.set_runtime("runc");
  m.mutable_capacity()->set_cpu_milli(0);
  m.mutable_slots(0)->set_phase(static_cast<node::v1::SlotPhase>(99));
  m.mutable_slots(0)->mutable_restore_point()->set_object("x");
  const auto sync = codec::from_sync(m.SerializeAsString());
  ASSERT_FALSE(sync);
  std::vector<std::string> fields;
  for (const auto& cause : sync.error().causes) fields.push_back(cause.field);
  EXPECT_EQ(fields, (std::vector<std::string>{"machine", "capacity", "runtime", "slots[0].phase",
                                              "slots[0].restore_point"}));
  EXPECT_EQ(codec::from_sync("\xff\xff").error().code, Code::kBadRequest);
}

TEST(NodeMessages, WhatANodeIsToldFollowsTheSlot) {
  SlotState s;
  s.phase = Phase::kReserved;
  s.order = full_order();
  s.epoch = 3;
  node::v1::DesiredSlot run, stop;
  ASSERT_TRUE(run.ParseFromString(codec::to_desired(s)));
  EXPECT_EQ(run.desired(), node::v1::DESIRED_RUN);
  EXPECT_EQ(run.start(), 2);
  EXPECT_EQ(run.epoch(), 3);
  EXPECT_EQ(run.image_digest(), "sha256:abc");
  EXPECT_EQ(run.restore_point().object(), restore_point().object);
  s.phase = Phase::kStopping;
  s.stop_reason = StopReason::kIdle;
  s.idle_since = kT0;
  ASSERT_TRUE(stop.ParseFromString(codec::to_desired(s)));
  EXPECT_EQ(stop.desired(), node::v1::DESIRED_STOP);
  EXPECT_EQ(stop.stop_reason(), common::v1::STOP_REASON_IDLE);
  EXPECT_EQ(stop.idle_since_us(), to_micros(kT0));

  MachineRow row;
  row.version = 9;
  row.slots.push_back({SandboxUid("u1"), 3, 1, Phase::kReserved, codec::to_desired(s)});
  node::v1::SyncResponse answer;
  ASSERT_TRUE(answer.ParseFromString(codec::to_sync_answer(row, false, Seconds(30), Seconds(5))));
  EXPECT_EQ(answer.version(), 9);
  EXPECT_TRUE(answer.complete());
  EXPECT_EQ(answer.lease_ms(), 30'000);
  EXPECT_EQ(answer.poll_ms(), 5'000);
  EXPECT_EQ(answer.slots_size(), 1);
  EXPECT_FALSE(answer.lost());
  ASSERT_TRUE(answer.ParseFromString(codec::to_sync_answer(row, true, Seconds(30), Seconds(5))));
  EXPECT_TRUE(answer.lost());
  EXPECT_EQ(answer.slots_size(), 0);
}

}  // namespace
}  // namespace nodus::scheduler::test
