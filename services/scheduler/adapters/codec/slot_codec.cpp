#include "services/scheduler/adapters/codec/codec.hpp"
#include "services/scheduler/adapters/codec/convert.hpp"
#include "services/scheduler/adapters/codec/state.pb.h"

namespace nodus::scheduler {
namespace {

using codec::at;
using codec::get;
using codec::put;
using codec::us;
namespace wire = scheduler::v1;

constexpr const char* kLapseReasons[] = {"Refused", "Expired", "Stopped", "Deleted", "NoCapacity"};

eventlog::Event packed(const google::protobuf::Message& message) {
  return {message.GetTypeName(), message.SerializeAsString()};
}

struct Encode {
  eventlog::Event operator()(const Planned& e) const {
    wire::SlotPlanned m;
    put(e.order, m.mutable_request());
    return packed(m);
  }
  eventlog::Event operator()(const Offered& e) const {
    wire::SlotOffered m;
    put(e.slot, m.mutable_slot());
    put(e.shape, m.mutable_shape());
    m.set_sharing(e.sharing);
    m.set_machine_type(e.machine_type);
    m.set_max_cost_usd(e.max_cost_usd);
    m.set_spent_usd(e.spent_usd);
    m.set_sandbox_name(e.sandbox_name);
    m.mutable_labels()->insert(e.labels.begin(), e.labels.end());
    m.set_recovery(e.recovery);
    m.set_expires_at_us(us(e.expires_at));
    m.set_at_us(us(e.at));
    return packed(m);
  }
  eventlog::Event operator()(const Waiting& e) const {
    wire::SlotPlanned m;
    put(e.slot, m.mutable_slot());
    m.set_waiting(true);
    m.set_at_us(us(e.at));
    return packed(m);
  }
  eventlog::Event operator()(const Lapsed& e) const {
    wire::OfferLapsed m;
    put(e.slot, m.mutable_slot());
    m.set_reason(kLapseReasons[static_cast<int>(e.reason)]);
    m.set_stop_reason(codec::to_wire(e.stop_reason));
    m.set_at_us(us(e.at));
    return packed(m);
  }
  eventlog::Event operator()(const Reserved& e) const {
    wire::SlotReserved m;
    put(e.slot, m.mutable_slot());
    m.set_machine(e.machine.str());
    m.set_data_path(e.data_path);
    put(e.times, m.mutable_times());
    return packed(m);
  }
  eventlog::Event operator()(const Started& e) const {
    wire::SandboxStarted m;
    put(e.slot, m.mutable_slot());
    m.set_runtime(e.runtime);
    put(e.times, m.mutable_times());
    return packed(m);
  }
  eventlog::Event operator()(const Stopping& e) const {
    wire::SlotStopping m;
    put(e.slot, m.mutable_slot());
    m.set_reason(codec::to_wire(e.reason));
    m.set_idle_since_us(us(e.idle_since));
    put(e.times, m.mutable_times());
    return packed(m);
  }
  eventlog::Event operator()(const Declined& e) const {
    wire::StopDeclined m;
    put(e.slot, m.mutable_slot());
    m.set_last_activity_at_us(us(e.last_activity));
    return packed(m);
  }
  eventlog::Event operator()(const CapRaised& e) const {
    wire::MaxCostRaised m;
    put(e.slot, m.mutable_slot());
    m.set_max_cost_usd(e.max_cost_usd);
    m.set_at_us(us(e.at));
    return packed(m);
  }
  eventlog::Event operator()(const Released& e) const {
    wire::SlotReleased m;
    put(e.slot, m.mutable_slot());
    m.set_stop_reason(codec::to_wire(e.stop_reason));
    m.set_failure(e.failure);
    m.set_message(e.message);
    if (e.restore_point) put(*e.restore_point, m.mutable_restore_point());
    put(e.times, m.mutable_times());
    return packed(m);
  }
  eventlog::Event operator()(const RestorePointReleased& e) const {
    wire::RestorePointReleased m;
    put(e.slot, m.mutable_slot());
    m.set_at_us(us(e.at));
    return packed(m);
  }
};

SlotEvent domain(const wire::SlotPlanned& m) {
  if (m.waiting()) return Waiting{get(m.slot()), at(m.at_us())};
  return Planned{get(m.request())};
}
SlotEvent domain(const wire::SlotOffered& m) {
  return Offered{get(m.slot()),         get(m.shape()),  m.sharing(),
                 m.max_cost_usd(),      m.spent_usd(),   m.sandbox_name(),
                 at(m.expires_at_us()), at(m.at_us()),   {m.labels().begin(), m.labels().end()},
                 m.recovery(),          m.machine_type()};
}
SlotEvent domain(const wire::OfferLapsed& m) {
  const auto* found = std::find(std::begin(kLapseReasons), std::end(kLapseReasons), m.reason());
  const auto reason = found == std::end(kLapseReasons)
                          ? LapseReason::kExpired
                          : static_cast<LapseReason>(found - std::begin(kLapseReasons));
  return Lapsed{get(m.slot()), reason, codec::from_wire(m.stop_reason()), at(m.at_us())};
}
SlotEvent domain(const wire::SlotReserved& m) {
  return Reserved{get(m.slot()), MachineId(m.machine()), m.data_path(), get(m.times())};
}
SlotEvent domain(const wire::SandboxStarted& m) {
  return Started{get(m.slot()), m.runtime(), get(m.times())};
}
SlotEvent domain(const wire::SlotStopping& m) {
  return Stopping{get(m.slot()), codec::from_wire(m.reason()), at(m.idle_since_us()), get(m.times())};
}
SlotEvent domain(const wire::StopDeclined& m) {
  return Declined{get(m.slot()), at(m.last_activity_at_us())};
}
SlotEvent domain(const wire::MaxCostRaised& m) {
  return CapRaised{get(m.slot()), m.max_cost_usd(), at(m.at_us())};
}
SlotEvent domain(const wire::SlotReleased& m) {
  Released e{get(m.slot()), codec::from_wire(m.stop_reason()), m.failure(), m.message(), std::nullopt,
             get(m.times())};
  if (m.has_restore_point()) e.restore_point = get(m.restore_point());
  return e;
}

SlotEvent domain(const wire::RestorePointReleased& m) {
  return RestorePointReleased{get(m.slot()), at(m.at_us())};
}

template <class Message>
bool decoded(const std::string& type, const std::string& payload, Result<SlotEvent>& out) {
  if (type != Message::descriptor()->full_name()) return false;
  auto message = codec::parse<Message>(type, payload);
  if (message)
    out = domain(*message);
  else
    out = std::unexpected(message.error());
  return true;
}

template <class... Messages>
Result<SlotEvent> decode_one_of(const std::string& type, const std::string& payload) {
  Result<SlotEvent> out = fail(Code::kInternal, "UnknownEventType", type + " is not an event of a slot.");
  (decoded<Messages>(type, payload, out) || ...);
  return out;
}

}  // namespace

eventlog::Event SlotCodec::encode(const SlotEvent& event) {
  return std::visit(Encode{}, event);
}

Result<SlotEvent> SlotCodec::decode(const std::string& type, const std::string& payload) {
  return decode_one_of<wire::SlotPlanned, wire::SlotOffered, wire::OfferLapsed, wire::SlotReserved,
                       wire::SandboxStarted, wire::SlotStopping, wire::StopDeclined, wire::SlotReleased,
                       wire::MaxCostRaised, wire::RestorePointReleased>(type, payload);
}

std::string SlotCodec::encode_state(const SlotState& s) {
  state::v1::Slot m;
  m.set_phase(static_cast<int>(s.phase));
  put(s.order, m.mutable_order());
  m.set_epoch(s.epoch);
  m.set_expires_at_us(us(s.expires_at));
  m.set_machine(s.machine.str());
  m.set_data_path(s.data_path);
  m.set_stop_reason(codec::to_wire(s.stop_reason));
  m.set_idle_since_us(us(s.idle_since));
  put(s.times, m.mutable_times());
  m.set_last_at_us(us(s.last_at));
  m.set_machine_type(s.machine_type);
  m.set_deleted(s.deleted);
  return m.SerializeAsString();
}

Result<SlotState> SlotCodec::decode_state(const std::string& bytes) {
  auto m = codec::parse<state::v1::Slot>("nodus.scheduler.state.v1.Slot", bytes);
  if (!m) return std::unexpected(m.error());
  if (m->phase() < 0 || m->phase() > static_cast<int>(Phase::kStopping))
    return fail(Code::kInternal, "UndecodableMessage", "A slot's state has an unknown phase.");
  SlotState s;
  s.phase = static_cast<Phase>(m->phase());
  s.order = get(m->order());
  s.epoch = m->epoch();
  s.expires_at = at(m->expires_at_us());
  s.machine = MachineId(m->machine());
  s.data_path = m->data_path();
  s.stop_reason = codec::from_wire(m->stop_reason());
  s.idle_since = at(m->idle_since_us());
  s.times = get(m->times());
  s.last_at = at(m->last_at_us());
  s.machine_type = m->machine_type();
  s.deleted = m->deleted();
  return s;
}

}  // namespace nodus::scheduler
