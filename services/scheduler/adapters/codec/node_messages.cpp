#include <fmt/core.h>

#include "libs/base/check.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/scheduler/adapters/codec/codec.hpp"
#include "services/scheduler/adapters/codec/convert.hpp"

namespace nodus::scheduler::codec {
namespace {

namespace wire = node::v1;
constexpr int kMaxSlots = 4096;

class Faults {
 public:
  void check(bool good, std::string field, std::string message) {
    if (!good) causes_.push_back({std::move(field), "FieldValueInvalid", std::move(message)});
  }
  std::optional<Error> error() {
    if (causes_.empty()) return std::nullopt;
    Error e{Code::kInvalid, "Invalid", "The sync of this node cannot be accepted."};
    e.message += " " + causes_.front().field + ": " + causes_.front().message;
    e.causes = std::move(causes_);
    return e;
  }

 private:
  std::vector<Cause> causes_;
};

bool is_label(const std::string& text) {
  if (text.empty() || text.size() > 63 || text.front() == '-' || text.back() == '-') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

std::optional<NodeSays> says(wire::SlotPhase phase) {
  switch (phase) {
    case wire::SLOT_PHASE_STARTING:
      return NodeSays::kStarting;
    case wire::SLOT_PHASE_RUNNING:
      return NodeSays::kRunning;
    case wire::SLOT_PHASE_DECLINED:
      return NodeSays::kDeclined;
    case wire::SLOT_PHASE_STOPPING:
      return NodeSays::kStopping;
    case wire::SLOT_PHASE_STOPPED:
      return NodeSays::kStopped;
    case wire::SLOT_PHASE_FAILED:
      return NodeSays::kFailed;
    default:
      return std::nullopt;
  }
}

void check_machine(const wire::SyncRequest& m, Faults& faults) {
  faults.check(is_label(m.machine()), "machine", "must be a DNS label of at most 63 characters");
  faults.check(m.org().empty() || is_label(m.org()), "org", "must be a DNS label or empty");
  faults.check(!m.incarnation().empty() && m.incarnation().size() <= 64, "incarnation",
               "must have 1 to 64 characters");
  faults.check(!m.data_path().empty() && m.data_path().size() <= 255, "data_path",
               "must be host:port, where the node is reached");
  faults.check(
      m.capacity().cpu_milli() > 0 && m.capacity().memory_bytes() > 0 && m.capacity().disk_bytes() > 0,
      "capacity", "must be greater than zero in each part");
  faults.check(m.runtime() == "runsc" || m.runtime() == "runc", "runtime", "must be runsc or runc");
  faults.check(m.runtime() != "runc" || m.profile() == "dev", "runtime",
               "runc is served by nodes of profile dev only");
  faults.check(m.slots_size() <= kMaxSlots, "slots", fmt::format("must list at most {}", kMaxSlots));
}

void check_slot(const wire::SlotStatus& slot, int index, Faults& faults) {
  const auto field = [&](const char* name) { return fmt::format("slots[{}].{}", index, name); };
  faults.check(!slot.sandbox_uid().empty() && slot.sandbox_uid().size() <= 64, field("sandbox_uid"),
               "must have 1 to 64 characters");
  faults.check(says(slot.phase()).has_value(), field("phase"), "is not a phase of this release");
  const auto& point = slot.restore_point();
  faults.check(!slot.has_restore_point() || (!point.object().empty() && point.object().size() <= 512 &&
                                             point.sha256().size() == 64 && point.size_bytes() >= 0),
               field("restore_point"), "must name an object and its digest of 64 hex digits");
}

}  // namespace

Result<NodeSync> from_sync(std::string_view body) {
  wire::SyncRequest m;
  if (!m.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return fail(Code::kBadRequest, "BadRequest", "The body is not a nodus.node.v1.SyncRequest.");
  Faults faults;
  check_machine(m, faults);
  if (m.slots_size() <= kMaxSlots)
    for (int i = 0; i < m.slots_size(); ++i) check_slot(m.slots(i), i, faults);
  if (auto error = faults.error()) return std::unexpected(std::move(*error));

  NodeSync sync{MachineId(m.machine()), OrgId(m.org()), m.incarnation(), m.data_path(),
                get(m.capacity()),      m.runtime(),    m.seen_version()};
  sync.slots.reserve(static_cast<size_t>(m.slots_size()));
  for (const auto& slot : m.slots()) {
    Report r;
    r.machine = sync.machine;
    r.epoch = slot.epoch();
    r.says = *says(slot.phase());
    r.failure = slot.failure();
    r.message = slot.message();
    r.runtime = sync.runtime;
    if (slot.has_restore_point()) r.restore_point = get(slot.restore_point());
    r.last_activity = at(slot.last_activity_at_us());
    r.declined = at(slot.declined_idle_since_us());
    sync.slots.push_back({SandboxUid(slot.sandbox_uid()), std::move(r)});
  }
  return sync;
}

std::string to_desired(const SlotState& s) {
  wire::DesiredSlot m;
  m.set_sandbox_uid(s.order.sandbox.str());
  m.set_start(s.order.start);
  m.set_epoch(s.epoch);
  m.set_org(s.order.org.str());
  m.set_project(s.order.project.str());
  m.set_name(s.order.name);
  m.set_image(s.order.image);
  m.set_image_digest(s.order.image_digest);
  put(s.order.shape, m.mutable_shape());
  m.set_egress_policy(s.order.egress_policy);
  m.set_continuity_mode(s.order.continuity_mode);
  m.set_working_dir(s.order.working_dir);
  if (s.order.restore_point) put(*s.order.restore_point, m.mutable_restore_point());
  m.set_desired(wire::DESIRED_RUN);
  if (s.phase == Phase::kStopping) {
    m.set_desired(wire::DESIRED_STOP);
    m.set_stop_reason(to_wire(s.stop_reason));
    m.set_idle_since_us(us(s.idle_since));
  }
  return m.SerializeAsString();
}

std::string to_sync_answer(const MachineRow& machine, bool lost, Micros lease, Micros poll) {
  wire::SyncResponse m;
  m.set_version(machine.version);
  m.set_complete(true);
  m.set_lease_ms(lease / Millis(1));
  m.set_poll_ms(poll / Millis(1));
  m.set_lost(lost);
  if (lost) return m.SerializeAsString();
  for (const auto& row : machine.slots) CHECK(m.add_slots()->ParseFromString(row.desired), "desired slot");
  return m.SerializeAsString();
}

}  // namespace nodus::scheduler::codec
