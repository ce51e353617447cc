#include <gtest/gtest.h>

#include "nodus/node/v1/channel.pb.h"
#include "services/executor/adapters/channel/codec.hpp"

namespace nodus::executor {
namespace {

namespace pb = nodus::node::v1;

pb::DesiredSlot slot() {
  pb::DesiredSlot slot;
  slot.set_sandbox_uid("5f0c9f5e-0000-4000-8000-000000000001");
  slot.set_start(2);
  slot.set_epoch(3);
  slot.set_desired(pb::DESIRED_RUN);
  slot.set_org("dev");
  slot.set_project("default");
  slot.set_name("hello");
  slot.set_image("nodus/agent-tools");
  slot.set_image_digest("sha256:00");
  slot.mutable_shape()->set_cpu_milli(250);
  slot.mutable_shape()->set_memory_bytes(128 << 20);
  slot.mutable_shape()->set_disk_bytes(1 << 30);
  slot.set_egress_policy("Open");
  slot.set_continuity_mode("Ephemeral");
  slot.set_working_dir("/workspace");
  slot.mutable_restore_point()->set_object("dev/u/1/2/1");
  slot.mutable_restore_point()->set_taken_at_us(9);
  return slot;
}

SyncAnswer decode(const std::vector<pb::DesiredSlot>& slots, std::vector<std::string>& refused) {
  pb::SyncResponse response;
  response.set_version(7);
  response.set_complete(true);
  response.set_poll_ms(25'000);
  for (const auto& wanted : slots) *response.add_slots() = wanted;
  return *decode_answer(response.SerializeAsString(), refused);
}

TEST(ChannelCodec, ReadsAnOrder) {
  std::vector<std::string> refused;
  auto wanted = slot();
  const auto answer = decode({wanted}, refused);
  EXPECT_TRUE(refused.empty());
  EXPECT_EQ(answer.poll, Millis(25'000));
  EXPECT_EQ(answer.desired.version, 7);
  EXPECT_TRUE(answer.desired.complete);
  const Order& order = answer.desired.orders.at(0);
  EXPECT_EQ(order.key.text(), "5f0c9f5e-0000-4000-8000-000000000001-3");
  EXPECT_EQ(order.start, 2);
  EXPECT_EQ(order.shape, (Shape{250, 128 << 20, 1 << 30}));
  EXPECT_TRUE(order.open_egress);
  EXPECT_TRUE(order.ephemeral);
  EXPECT_EQ(order.restore_point->taken_at, from_micros(9));
  EXPECT_FALSE(order.stop);

  wanted.set_desired(pb::DESIRED_STOP);
  wanted.set_stop_reason(nodus::common::v1::STOP_REASON_IDLE);
  wanted.set_idle_since_us(11);
  const auto stop = decode({wanted}, refused).desired.orders.at(0);
  EXPECT_TRUE(stop.stop);
  EXPECT_EQ(static_cast<int>(stop.stop_reason), static_cast<int>(StopReason::kIdle));
  EXPECT_EQ(stop.idle_since, from_micros(11));
}

// What would become a path, a container's id or an object's name; and an absence that must not destroy.
TEST(ChannelCodec, RefusesWhatCannotBeWithoutDestroyingIt) {
  const std::vector<std::function<void(pb::DesiredSlot&)>> faults{
      [](auto& s) { s.set_sandbox_uid("../etc"); },
      [](auto& s) { s.set_sandbox_uid(""); },
      [](auto& s) { s.set_epoch(0); },
      [](auto& s) { s.set_org("a/b"); },
      [](auto& s) { s.set_name("Box"); },
      [](auto& s) { s.set_working_dir("workspace"); },
      [](auto& s) { s.set_desired(pb::DESIRED_UNSPECIFIED); },
      [](auto& s) { s.mutable_shape()->set_memory_bytes(0); },
      [](auto& s) { s.mutable_shape()->set_cpu_milli(-1); },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    std::vector<std::string> refused;
    auto bad = slot();
    faults[i](bad);
    const auto answer = decode({bad, slot()}, refused);
    EXPECT_EQ(refused.size(), 1U) << i;
    EXPECT_EQ(answer.desired.orders.size(), 1U) << i;
    EXPECT_FALSE(answer.desired.complete) << i;
  }
  std::vector<std::string> refused;
  EXPECT_FALSE(decode_answer("\xff\xff", refused));
}

TEST(ChannelCodec, SaysAllThatIsTrue) {
  const NodeIdentity node{"m1", "i1", "h:1", {8000, 2, 3}, "runsc", "dev", "dev"};
  const SlotReport report{
      {SandboxUid("u"), 4},   Phase::kStopped, "", "", RestorePoint{"o", "s", 5, from_micros(6)},
      {from_micros(7), true}, from_micros(8)};
  pb::SyncRequest request;
  ASSERT_TRUE(request.ParseFromString(encode_sync(node, 12, {report})));
  EXPECT_EQ(request.machine(), "m1");
  EXPECT_EQ(request.seen_version(), 12);
  EXPECT_EQ(request.capacity().cpu_milli(), 8000);
  EXPECT_EQ(request.slots(0).phase(), pb::SLOT_PHASE_STOPPED);
  EXPECT_EQ(request.slots(0).restore_point().size_bytes(), 5);
  EXPECT_EQ(request.slots(0).last_activity_at_us(), 7);
  EXPECT_TRUE(request.slots(0).busy());
  EXPECT_EQ(request.slots(0).declined_idle_since_us(), 8);
}

}  // namespace
}  // namespace nodus::executor
