#include "services/executor/adapters/channel/codec.hpp"

#include "nodus/node/v1/channel.pb.h"

namespace nodus::executor {
namespace pb = nodus::node::v1;

static pb::SlotPhase phase_of(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return pb::SLOT_PHASE_STARTING;
    case Phase::kRunning:
      return pb::SLOT_PHASE_RUNNING;
    case Phase::kDeclined:
      return pb::SLOT_PHASE_DECLINED;
    case Phase::kStopping:
      return pb::SLOT_PHASE_STOPPING;
    case Phase::kStopped:
      return pb::SLOT_PHASE_STOPPED;
    case Phase::kFailed:
      return pb::SLOT_PHASE_FAILED;
  }
  return pb::SLOT_PHASE_UNSPECIFIED;
}

static void put_shape(const Shape& from, nodus::common::v1::Shape& to) {
  to.set_cpu_milli(from.cpu_milli);
  to.set_memory_bytes(from.memory_bytes);
  to.set_disk_bytes(from.disk_bytes);
}

std::string encode_sync(const NodeIdentity& node, int64_t seen_version,
                        const std::vector<SlotReport>& slots) {
  pb::SyncRequest request;
  request.set_machine(node.machine);
  request.set_incarnation(node.incarnation);
  request.set_data_path(node.data_path);
  put_shape(node.capacity, *request.mutable_capacity());
  request.set_runtime(node.runtime);
  request.set_profile(node.profile);
  request.set_org(node.org);
  request.set_seen_version(seen_version);
  for (const auto& slot : slots) {
    auto& status = *request.add_slots();
    status.set_sandbox_uid(slot.key.sandbox.str());
    status.set_epoch(slot.key.epoch);
    status.set_phase(phase_of(slot.phase));
    status.set_failure(slot.failure);
    status.set_message(slot.message);
    status.set_busy(slot.activity.busy);
    status.set_last_activity_at_us(to_micros(slot.activity.last));
    if (slot.declined) status.set_declined_idle_since_us(to_micros(*slot.declined));
    if (!slot.saved) continue;
    auto& point = *status.mutable_restore_point();
    point.set_object(slot.saved->object);
    point.set_sha256(slot.saved->sha256);
    point.set_size_bytes(slot.saved->size_bytes);
    point.set_taken_at_us(to_micros(slot.saved->taken_at));
  }
  return request.SerializeAsString();
}

static bool of(const std::string& text, std::string_view characters, size_t limit) {
  return !text.empty() && text.size() <= limit && text.find_first_not_of(characters) == std::string::npos;
}

// The uid becomes a directory and a container's id, the org a part of an object's name: nothing but letters.
static std::string fault_of(const pb::DesiredSlot& slot) {
  constexpr std::string_view kLabel = "abcdefghijklmnopqrstuvwxyz0123456789-";
  constexpr int64_t kMiB = 1 << 20;
  if (!of(slot.sandbox_uid(), kLabel, 63) || slot.epoch() <= 0) return "its uid or epoch cannot be";
  if (!of(slot.org(), kLabel, 63)) return "its organization cannot be";
  if (slot.desired() == pb::DESIRED_UNSPECIFIED) return "it is neither to run nor to stop";
  if (slot.desired() == pb::DESIRED_STOP) return "";
  if (!of(slot.name(), kLabel, 63)) return "its name cannot be";
  if (!slot.working_dir().empty() && (slot.working_dir()[0] != '/' || slot.working_dir().size() > 4096))
    return "its working directory is not an absolute path";
  const auto& shape = slot.shape();
  if (shape.cpu_milli() < 10 || shape.memory_bytes() < 16 * kMiB || shape.disk_bytes() < 16 * kMiB)
    return "its shape is too small";
  return "";
}

static Order order_of(const pb::DesiredSlot& slot) {
  Order order;
  order.key = {SandboxUid(slot.sandbox_uid()), slot.epoch()};
  order.start = slot.start();
  order.org = slot.org();
  order.project = slot.project();
  order.name = slot.name();
  order.image = slot.image();
  order.image_digest = slot.image_digest();
  order.shape = {slot.shape().cpu_milli(), slot.shape().memory_bytes(), slot.shape().disk_bytes()};
  order.open_egress = slot.egress_policy() == "Open";
  order.ephemeral = slot.continuity_mode() == "Ephemeral";
  order.working_dir = slot.working_dir();
  if (slot.has_restore_point() && !slot.restore_point().object().empty())
    order.restore_point =
        RestorePoint{slot.restore_point().object(), slot.restore_point().sha256(),
                     slot.restore_point().size_bytes(), from_micros(slot.restore_point().taken_at_us())};
  order.stop = slot.desired() == pb::DESIRED_STOP;
  if (slot.stop_reason() == nodus::common::v1::STOP_REASON_IDLE) order.stop_reason = StopReason::kIdle;
  if (slot.stop_reason() == nodus::common::v1::STOP_REASON_DELETE) order.stop_reason = StopReason::kDelete;
  if (slot.idle_since_us() > 0) order.idle_since = from_micros(slot.idle_since_us());
  return order;
}

Result<SyncAnswer> decode_answer(std::string_view bytes, std::vector<std::string>& refused) {
  pb::SyncResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(Code::kBadRequest, "MessageMalformed", "The scheduler's answer is not a SyncResponse.");
  SyncAnswer answer;
  answer.desired.version = response.version();
  answer.desired.complete = response.complete();
  answer.poll = Millis(response.poll_ms());
  answer.lost = response.lost();
  for (const auto& slot : response.slots()) {
    if (const auto fault = fault_of(slot); !fault.empty()) {
      refused.push_back("Slot " + slot.sandbox_uid() + " is refused: " + fault + ".");
      // It is wanted all the same: its absence must not destroy what may run under its name.
      answer.desired.complete = false;
      continue;
    }
    answer.desired.orders.push_back(order_of(slot));
  }
  return answer;
}

}  // namespace nodus::executor
