#include "services/lifecycle/adapters/sandbox_values.hpp"

namespace nodus::lifecycle::codec {

Money money_of(const std::string& usd) {
  return Money::parse(usd).value_or(Money());
}
std::optional<Rate> rate_of(const std::string& usd) {
  if (usd.empty()) return std::nullopt;
  return Rate::from_pico_per_second(money_of(usd).pico());
}

void put(const SandboxSpec& spec, pb::SandboxSpec* out) {
  out->set_image(spec.image);
  out->mutable_shape()->set_cpu_milli(spec.shape.cpu_milli);
  out->mutable_shape()->set_memory_bytes(spec.shape.memory_bytes);
  out->mutable_shape()->set_disk_bytes(spec.shape.disk_bytes);
  out->set_egress_policy(spec.egress == Egress::kOpen ? "Open" : "Deny");
  out->set_idle_timeout_us(spec.idle_timeout.count());
  out->set_on_idle(spec.on_idle == OnIdle::kDelete ? "Delete" : "Stop");
  out->set_max_lifetime_us(spec.max_lifetime.count());
  out->set_continuity_mode(spec.continuity == Continuity::kEphemeral ? "Ephemeral" : "Snapshotted");
  out->set_working_dir(spec.working_dir);
  if (spec.max_cost) out->set_max_cost_usd(spec.max_cost->to_decimal());
  out->mutable_env()->insert(spec.env.begin(), spec.env.end());
}

SandboxSpec spec_of(const pb::SandboxSpec& in) {
  SandboxSpec spec;
  spec.image = in.image();
  spec.shape = {in.shape().cpu_milli(), in.shape().memory_bytes(), in.shape().disk_bytes()};
  spec.egress = in.egress_policy() == "Open" ? Egress::kOpen : Egress::kDeny;
  spec.idle_timeout = Micros(in.idle_timeout_us());
  spec.on_idle = in.on_idle() == "Delete" ? OnIdle::kDelete : OnIdle::kStop;
  spec.max_lifetime = Micros(in.max_lifetime_us());
  spec.continuity = in.continuity_mode() == "Ephemeral" ? Continuity::kEphemeral : Continuity::kSnapshotted;
  spec.working_dir = in.working_dir();
  if (!in.max_cost_usd().empty()) spec.max_cost = money_of(in.max_cost_usd());
  spec.env = {in.env().begin(), in.env().end()};
  return spec;
}

void put(const RestorePoint& point, common::RestorePoint* out) {
  out->set_object(point.object);
  out->set_sha256(point.sha256);
  out->set_size_bytes(point.size_bytes);
  out->set_taken_at_us(to_micros(point.taken_at));
}

RestorePoint restore_point_of(const common::RestorePoint& in) {
  return {in.object(), in.sha256(), in.size_bytes(), from_micros(in.taken_at_us())};
}

void put(const SandboxCreated& e, pb::SandboxCreated* out) {
  out->set_uid(e.uid.str());
  out->set_org(e.org.str());
  out->set_project(e.project.str());
  out->set_name(e.name);
  put(e.spec, out->mutable_spec());
  out->set_image_digest(e.image_digest);
  out->set_created_at_us(to_micros(e.at));
  out->mutable_labels()->insert(e.labels.begin(), e.labels.end());
  out->mutable_annotations()->insert(e.annotations.begin(), e.annotations.end());
}

SandboxCreated created_of(const pb::SandboxCreated& in) {
  return {SandboxUid(in.uid()),
          OrgId(in.org()),
          ProjectId(in.project()),
          in.name(),
          spec_of(in.spec()),
          in.image_digest(),
          {in.labels().begin(), in.labels().end()},
          {in.annotations().begin(), in.annotations().end()},
          from_micros(in.created_at_us())};
}

void put(const Refusal& refusal, pb::FundingRecorded* out) {
  out->set_refusal_reason(refusal.reason);
  out->set_refusal_limit(refusal.limit);
  out->set_hold_usd(refusal.hold_usd);
  out->set_available_usd(refusal.available_usd);
  out->set_at_us(to_micros(refusal.at));
}

Refusal refusal_of(const pb::FundingRecorded& in) {
  return {in.refusal_reason(), in.refusal_limit(), in.hold_usd(), in.available_usd(),
          from_micros(in.at_us())};
}

}  // namespace nodus::lifecycle::codec
