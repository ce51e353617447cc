#include "services/lifecycle/adapters/codec.hpp"

#include "nodus/lifecycle/v1/events.pb.h"
#include "nodus/lifecycle/v1/state.pb.h"
#include "services/lifecycle/adapters/codec_support.hpp"

namespace nodus::lifecycle {

namespace {

namespace pb = nodus::lifecycle::v1;
namespace common = nodus::common::v1;
using namespace codec;

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

struct Encoder {
  const Sandbox& s;

  eventlog::Event operator()(const SandboxCreated& e) const {
    pb::SandboxCreated m;
    put(e, &m);
    return event_of(m);
  }
  eventlog::Event operator()(const StartRequested& e) const {
    pb::StartRequested m;
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_org(s.org.str());
    m.set_project(s.project.str());
    m.set_name(s.name);
    put(s.spec, m.mutable_spec());
    m.set_image_digest(s.image_digest);
    if (s.restore_point) put(*s.restore_point, m.mutable_restore_point());
    m.set_trigger(std::string(to_string(e.trigger)));
    m.set_at_us(to_micros(e.at));
    m.set_spent_usd(e.spent.to_decimal());
    return event_of(m);
  }
  eventlog::Event operator()(const StopRequested& e) const {
    pb::StopRequested m;
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_reason(static_cast<common::StopReason>(e.reason));
    m.set_idle_since_us(micros_or_zero(e.idle_since));
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const StopDeclined& e) const {
    pb::StopDeclined m;
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_last_activity_at_us(to_micros(e.last_activity));
    return event_of(m);
  }
  eventlog::Event operator()(const DeleteRequested& e) const {
    pb::DeleteRequested m;
    m.set_uid(s.uid.str());
    m.set_reason(e.reason);
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const MaxCostRaised& e) const {
    pb::MaxCostRaised m;
    m.set_uid(s.uid.str());
    m.set_max_cost_usd(e.max_cost.to_decimal());
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const FundingRecorded& e) const {
    pb::FundingRecorded m;
    if (!e.rate) put(e.refusal, &m);
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_funded(e.rate.has_value());
    if (e.rate) m.set_rate_usd_per_s(e.rate->to_decimal());
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const WakeRecorded& e) const {
    pb::WakeRecorded m;
    m.set_uid(s.uid.str());
    m.set_trigger(std::string(to_string(e.trigger)));
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const StartDeferred& e) const {
    pb::StartDeferred m;
    m.set_uid(s.uid.str());
    m.set_attempt(e.attempt);
    m.set_until_us(to_micros(e.until));
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const SlotRecorded& e) const {
    pb::SlotRecorded m;
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_epoch(e.epoch);
    m.set_machine(e.machine);
    m.set_data_path(e.data_path);
    m.set_reserved_at_us(to_micros(e.reserved_at));
    return event_of(m);
  }
  eventlog::Event operator()(const RunningRecorded& e) const {
    pb::RunningRecorded m;
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_runtime(e.runtime);
    m.set_started_at_us(to_micros(e.started_at));
    return event_of(m);
  }
  eventlog::Event operator()(const ReleaseRecorded& e) const {
    pb::ReleaseRecorded m;
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_stop_reason(static_cast<common::StopReason>(e.stop_reason));
    m.set_failure(e.failure);
    m.set_message(e.message);
    if (e.restore_point) put(*e.restore_point, m.mutable_restore_point());
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const PaidUntilRecorded& e) const {
    pb::PaidUntilRecorded m;
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_at_s(e.at_s);
    return event_of(m);
  }
  eventlog::Event operator()(const ChargeRecorded& e) const {
    pb::ChargeRecorded m;
    m.set_uid(s.uid.str());
    m.set_start(e.start);
    m.set_total_usd(e.total.to_decimal());
    return event_of(m);
  }
  eventlog::Event operator()(const ProcessNumbered& e) const {
    pb::ProcessNumbered m;
    m.set_uid(s.uid.str());
    m.set_number(e.number);
    return event_of(m);
  }
  eventlog::Event operator()(const SandboxDeleted& e) const {
    pb::SandboxDeleted m;
    m.set_uid(s.uid.str());
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
};

Trigger trigger_of(const std::string& text) {
  for (const Trigger t : {Trigger::kCreate, Trigger::kStart, Trigger::kCommand, Trigger::kFile})
    if (text == to_string(t)) return t;
  return Trigger::kStart;
}

}  // namespace

eventlog::Event SandboxCodec::encode(const SandboxEvent& event, const Sandbox& after) {
  return std::visit(Encoder{after}, event);
}

Result<SandboxEvent> SandboxCodec::decode(const std::string& type, const std::string& payload) {
  Result<SandboxEvent> out = unknown_type(type);
  const auto as = [&]<class M>(auto map) { return decode_as<M>(type, payload, out, map); };
  (void)(as.operator()<pb::SandboxCreated>([](const auto& m) {
    return created_of(m);
  }) || as.operator()<pb::StartRequested>([](const auto& m) {
    return StartRequested{m.start(), trigger_of(m.trigger()), money_of(m.spent_usd()),
                          from_micros(m.at_us())};
  }) || as.operator()<pb::StopRequested>([](const auto& m) {
    return StopRequested{m.start(), static_cast<StopReason>(m.reason()), instant_or_none(m.idle_since_us()),
                         from_micros(m.at_us())};
  }) || as.operator()<pb::StopDeclined>([](const auto& m) {
    return StopDeclined{m.start(), from_micros(m.last_activity_at_us())};
  }) || as.operator()<pb::DeleteRequested>([](const auto& m) {
    return DeleteRequested{m.reason(), from_micros(m.at_us())};
  }) || as.operator()<pb::MaxCostRaised>([](const auto& m) {
    return MaxCostRaised{money_of(m.max_cost_usd()), from_micros(m.at_us())};
  }) || as.operator()<pb::FundingRecorded>([](const auto& m) {
    return FundingRecorded{m.start(), rate_of(m.rate_usd_per_s()), m.funded() ? Refusal{} : refusal_of(m),
                           from_micros(m.at_us())};
  }) || as.operator()<pb::WakeRecorded>([](const auto& m) {
    return WakeRecorded{trigger_of(m.trigger()), from_micros(m.at_us())};
  }) || as.operator()<pb::StartDeferred>([](const auto& m) {
    return StartDeferred{m.attempt(), from_micros(m.until_us()), from_micros(m.at_us())};
  }) || as.operator()<pb::SlotRecorded>([](const auto& m) {
    return SlotRecorded{m.start(), m.epoch(), m.machine(), m.data_path(), from_micros(m.reserved_at_us())};
  }) || as.operator()<pb::RunningRecorded>([](const auto& m) {
    return RunningRecorded{m.start(), m.runtime(), from_micros(m.started_at_us())};
  }) || as.operator()<pb::ReleaseRecorded>([](const auto& m) {
    return ReleaseRecorded{
        m.start(),
        static_cast<StopReason>(m.stop_reason()),
        m.failure(),
        m.message(),
        m.has_restore_point() ? std::optional(restore_point_of(m.restore_point())) : std::nullopt,
        from_micros(m.at_us())};
  }) || as.operator()<pb::PaidUntilRecorded>([](const auto& m) {
    return PaidUntilRecorded{m.start(), m.at_s()};
  }) || as.operator()<pb::ChargeRecorded>([](const auto& m) {
    return ChargeRecorded{m.start(), money_of(m.total_usd())};
  }) || as.operator()<pb::ProcessNumbered>([](const auto& m) { return ProcessNumbered{m.number()}; }) ||
         as.operator()<pb::SandboxDeleted>(
             [](const auto& m) { return SandboxDeleted{from_micros(m.at_us())}; }));
  return out;
}

std::string SandboxCodec::encode_state(const Sandbox& s) {
  pb::SandboxState m;
  put(SandboxCreated{s.uid, s.org, s.project, s.name, s.spec, s.image_digest, s.labels, s.annotations,
                     s.created_at},
      m.mutable_created());
  m.set_phase(static_cast<int>(s.phase));
  m.set_phase_since_us(to_micros(s.phase_since));
  m.set_wants_running(s.wants_running);
  m.set_start(s.start);
  m.set_start_open(s.start_open);
  m.set_epoch(s.epoch);
  m.set_machine(s.machine);
  m.set_data_path(s.data_path);
  m.set_runtime(s.runtime);
  m.set_reserved_at_us(micros_or_zero(s.reserved_at));
  m.set_started_at_us(micros_or_zero(s.started_at));
  if (s.rate) m.set_rate_usd_per_s(s.rate->to_decimal());
  if (s.refusal) put(*s.refusal, m.mutable_refusal());
  m.set_stop_reason(static_cast<int>(s.stop_reason));
  m.set_wake_pending(s.wake_pending);
  m.set_failure(s.failure);
  m.set_message(s.message);
  if (s.restore_point) put(*s.restore_point, m.mutable_restore_point());
  m.set_posted_usd(s.posted.to_decimal());
  m.set_last_activity_us(to_micros(s.last_activity));
  m.set_processes(s.processes);
  m.set_unposted_usd(s.unposted.to_decimal());
  m.set_charged_start(s.charged_start);
  m.set_deferred_until_us(micros_or_zero(s.deferred_until));
  m.set_deferrals(s.deferrals);
  m.set_paid_until_s(s.paid_until_s.value_or(0));
  return m.SerializeAsString();
}

Result<Sandbox> SandboxCodec::decode_state(const std::string& bytes) {
  auto m = parse<pb::SandboxState>(bytes);
  if (!m) return std::unexpected(std::move(m.error()));
  const auto c = created_of(m->created());
  Sandbox s;
  s.uid = c.uid, s.org = c.org, s.project = c.project, s.name = c.name, s.spec = c.spec;
  s.image_digest = c.image_digest, s.labels = c.labels, s.annotations = c.annotations, s.created_at = c.at;
  s.phase = static_cast<Phase>(m->phase());
  s.phase_since = from_micros(m->phase_since_us());
  s.wants_running = m->wants_running();
  s.start = m->start();
  s.start_open = m->start_open();
  s.epoch = m->epoch();
  s.machine = m->machine();
  s.data_path = m->data_path();
  s.runtime = m->runtime();
  s.reserved_at = instant_or_none(m->reserved_at_us());
  s.started_at = instant_or_none(m->started_at_us());
  s.rate = rate_of(m->rate_usd_per_s());
  if (m->has_refusal()) s.refusal = refusal_of(m->refusal());
  s.stop_reason = static_cast<StopReason>(m->stop_reason());
  s.wake_pending = m->wake_pending();
  s.failure = m->failure();
  s.message = m->message();
  if (m->has_restore_point()) s.restore_point = restore_point_of(m->restore_point());
  s.posted = money_of(m->posted_usd());
  s.last_activity = from_micros(m->last_activity_us());
  s.processes = m->processes();
  s.unposted = money_of(m->unposted_usd());
  s.charged_start = m->charged_start();
  s.deferred_until = instant_or_none(m->deferred_until_us());
  s.deferrals = m->deferrals();
  if (m->paid_until_s() != 0) s.paid_until_s = m->paid_until_s();
  return s;
}

}  // namespace nodus::lifecycle
