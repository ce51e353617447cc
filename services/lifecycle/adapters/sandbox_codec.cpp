#include "services/lifecycle/adapters/codec.hpp"

#include "nodus/lifecycle/v1/events.pb.h"
#include "services/lifecycle/adapters/codec_support.hpp"
#include "services/lifecycle/adapters/sandbox_values.hpp"

namespace nodus::lifecycle {

namespace {

using namespace codec;

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
    m.mutable_spec()->clear_env();  // nobody else's business
    m.set_image_digest(s.image_digest);
    if (s.restore_point) put(*s.restore_point, m.mutable_restore_point());
    m.set_trigger(std::string(to_string(e.trigger)));
    m.set_at_us(to_micros(e.at));
    m.set_spent_usd(e.spent.to_decimal());
    m.mutable_labels()->insert(s.labels.begin(), s.labels.end());
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
    m.set_because(e.because);
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const ActivityNoted& e) const {
    pb::ActivityNoted m;
    m.set_uid(s.uid.str());
    m.set_epoch(e.epoch);
    m.set_busy(e.busy);
    m.set_because(e.because);
    m.set_last_activity_at_us(to_micros(e.last_activity));
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const StopWished& e) const {
    pb::StopWished m;
    m.set_uid(s.uid.str());
    m.set_at_us(to_micros(e.at));
    return event_of(m);
  }
  eventlog::Event operator()(const LifetimeWarned& e) const {
    pb::LifetimeWarned m;
    m.set_uid(s.uid.str());
    m.set_at_us(to_micros(e.at));
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
  eventlog::Event operator()(const MetadataChanged& e) const {
    pb::MetadataChanged m;
    m.set_uid(s.uid.str());
    m.mutable_labels()->insert(e.labels.begin(), e.labels.end());
    m.mutable_annotations()->insert(e.annotations.begin(), e.annotations.end());
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
    m.set_recovering(e.recovering);
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
    m.set_at_us(to_micros(e.at));
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
  for (const Trigger t :
       {Trigger::kCreate, Trigger::kStart, Trigger::kCommand, Trigger::kFile, Trigger::kRecovery})
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
    // Before at_us was written, the instant of the last activity stood for it.
    const int64_t at_us = m.at_us() != 0 ? m.at_us() : m.last_activity_at_us();
    return StopDeclined{m.start(), from_micros(m.last_activity_at_us()), m.because(), from_micros(at_us)};
  }) || as.operator()<pb::ActivityNoted>([](const auto& m) {
    return ActivityNoted{m.epoch(), m.busy(), m.because(), from_micros(m.last_activity_at_us()),
                         from_micros(m.at_us())};
  }) || as.operator()<pb::StopWished>([](const auto& m) {
    return StopWished{from_micros(m.at_us())};
  }) || as.operator()<pb::LifetimeWarned>([](const auto& m) {
    return LifetimeWarned{from_micros(m.at_us())};
  }) || as.operator()<pb::DeleteRequested>([](const auto& m) {
    return DeleteRequested{m.reason(), from_micros(m.at_us())};
  }) || as.operator()<pb::MaxCostRaised>([](const auto& m) {
    return MaxCostRaised{money_of(m.max_cost_usd()), from_micros(m.at_us())};
  }) || as.operator()<pb::MetadataChanged>([](const auto& m) {
    return MetadataChanged{{m.labels().begin(), m.labels().end()},
                           {m.annotations().begin(), m.annotations().end()},
                           from_micros(m.at_us())};
  }) || as.operator()<pb::FundingRecorded>([](const auto& m) {
    return FundingRecorded{m.start(), rate_of(m.rate_usd_per_s()), m.funded() ? Refusal{} : refusal_of(m),
                           from_micros(m.at_us())};
  }) || as.operator()<pb::WakeRecorded>([](const auto& m) {
    return WakeRecorded{trigger_of(m.trigger()), from_micros(m.at_us())};
  }) || as.operator()<pb::StartDeferred>([](const auto& m) {
    return StartDeferred{m.attempt(), from_micros(m.until_us()), from_micros(m.at_us()), m.recovering()};
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
  }) || as.operator()<pb::ProcessNumbered>([](const auto& m) {
    return ProcessNumbered{m.number(), from_micros(m.at_us())};
  }) || as.operator()<pb::SandboxDeleted>([](const auto& m) {
    return SandboxDeleted{from_micros(m.at_us())};
  }));
  return out;
}

}  // namespace nodus::lifecycle
