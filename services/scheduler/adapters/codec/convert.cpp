#include "services/scheduler/adapters/codec/convert.hpp"

namespace nodus::scheduler::codec {

void put(const Shape& from, common::v1::Shape* to) {
  to->set_cpu_milli(from.cpu_milli);
  to->set_memory_bytes(from.memory_bytes);
  to->set_disk_bytes(from.disk_bytes);
}
Shape get(const common::v1::Shape& from) {
  return {from.cpu_milli(), from.memory_bytes(), from.disk_bytes()};
}

void put(const RestorePoint& from, common::v1::RestorePoint* to) {
  to->set_object(from.object);
  to->set_sha256(from.sha256);
  to->set_size_bytes(from.size_bytes);
  to->set_taken_at_us(us(from.taken_at));
}
RestorePoint get(const common::v1::RestorePoint& from) {
  return {from.object(), from.sha256(), from.size_bytes(), at(from.taken_at_us())};
}

void put(const SlotRef& from, scheduler::v1::SlotRef* to) {
  to->set_sandbox_uid(from.sandbox.str());
  to->set_start(from.start);
  to->set_epoch(from.epoch);
  to->set_org(from.org.str());
  to->set_project(from.project.str());
}
SlotRef get(const scheduler::v1::SlotRef& from) {
  return {SandboxUid(from.sandbox_uid()), from.start(), from.epoch(), OrgId(from.org()),
          ProjectId(from.project())};
}

void put(const Times& from, scheduler::v1::Times* to) {
  to->set_reserved_at_us(us(from.reserved_at));
  to->set_started_at_us(us(from.started_at));
  to->set_stopping_at_us(us(from.stopping_at));
  to->set_released_at_us(us(from.released_at));
}
Times get(const scheduler::v1::Times& from) {
  return {at(from.reserved_at_us()), at(from.started_at_us()), at(from.stopping_at_us()),
          at(from.released_at_us())};
}

void put(const Order& from, lifecycle::v1::StartRequested* to) {
  to->set_uid(from.sandbox.str());
  to->set_start(from.start);
  to->set_org(from.org.str());
  to->set_project(from.project.str());
  to->set_name(from.name);
  to->set_image_digest(from.image_digest);
  to->set_spent_usd(from.spent_usd);
  to->mutable_labels()->insert(from.labels.begin(), from.labels.end());
  if (from.recovery) to->set_trigger("Recovery");
  if (from.restore_point) put(*from.restore_point, to->mutable_restore_point());
  auto* spec = to->mutable_spec();
  spec->set_image(from.image);
  put(from.shape, spec->mutable_shape());
  spec->set_egress_policy(from.egress_policy);
  spec->set_continuity_mode(from.continuity_mode);
  spec->set_working_dir(from.working_dir);
  spec->set_max_cost_usd(from.max_cost_usd);
}
Order get(const lifecycle::v1::StartRequested& from) {
  Order to;
  to.sandbox = SandboxUid(from.uid());
  to.start = from.start();
  to.org = OrgId(from.org());
  to.project = ProjectId(from.project());
  to.name = from.name();
  to.image = from.spec().image();
  to.image_digest = from.image_digest();
  to.shape = get(from.spec().shape());
  to.egress_policy = from.spec().egress_policy();
  to.continuity_mode = from.spec().continuity_mode();
  to.working_dir = from.spec().working_dir();
  to.max_cost_usd = from.spec().max_cost_usd();
  to.spent_usd = from.spent_usd();
  to.labels.insert(from.labels().begin(), from.labels().end());
  to.recovery = from.trigger() == "Recovery";
  if (from.has_restore_point()) to.restore_point = get(from.restore_point());
  return to;
}

common::v1::StopReason to_wire(StopReason reason) {
  return static_cast<common::v1::StopReason>(static_cast<int>(reason));
}
StopReason from_wire(common::v1::StopReason reason) {
  // A reason of a newer release is a stop all the same.
  if (!common::v1::StopReason_IsValid(reason)) return StopReason::kUser;
  return static_cast<StopReason>(static_cast<int>(reason));
}

}  // namespace nodus::scheduler::codec
