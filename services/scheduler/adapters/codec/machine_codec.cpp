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

struct Encode {
  eventlog::Event operator()(const MachineRegistered& e) const {
    wire::MachineRegistered m;
    m.set_machine(e.machine.str());
    m.set_org(e.org.str());
    put(e.capacity, m.mutable_capacity());
    m.set_data_path(e.data_path);
    m.set_runtime(e.runtime);
    m.set_incarnation(e.incarnation);
    m.set_at_us(us(e.at));
    return {m.GetTypeName(), m.SerializeAsString()};
  }
  eventlog::Event operator()(const CapacityTaken& e) const {
    wire::MachineCapacityTaken m;
    m.set_machine(e.machine.str());
    m.set_sandbox_uid(e.sandbox.str());
    m.set_epoch(e.epoch);
    put(e.shape, m.mutable_shape());
    return {m.GetTypeName(), m.SerializeAsString()};
  }
  eventlog::Event operator()(const CapacityFreed& e) const {
    wire::MachineCapacityFreed m;
    m.set_machine(e.machine.str());
    m.set_sandbox_uid(e.sandbox.str());
    m.set_epoch(e.epoch);
    return {m.GetTypeName(), m.SerializeAsString()};
  }
  eventlog::Event operator()(const MachineLost& e) const {
    wire::MachineLost m;
    m.set_machine(e.machine.str());
    m.set_incarnation(e.incarnation);
    m.set_at_us(us(e.at));
    return {m.GetTypeName(), m.SerializeAsString()};
  }
};

template <class Message>
bool is(const std::string& type) {
  return type == Message::descriptor()->full_name();
}

}  // namespace

eventlog::Event MachineCodec::encode(const MachineEvent& event) {
  return std::visit(Encode{}, event);
}

Result<MachineEvent> MachineCodec::decode(const std::string& type, const std::string& payload) {
  if (is<wire::MachineRegistered>(type)) {
    auto m = codec::parse<wire::MachineRegistered>(type, payload);
    if (!m) return std::unexpected(m.error());
    return MachineRegistered{MachineId(m->machine()), OrgId(m->org()), get(m->capacity()),
                             m->data_path(),          m->runtime(),    m->incarnation(),
                             at(m->at_us())};
  }
  if (is<wire::MachineCapacityTaken>(type)) {
    auto m = codec::parse<wire::MachineCapacityTaken>(type, payload);
    if (!m) return std::unexpected(m.error());
    return CapacityTaken{MachineId(m->machine()), SandboxUid(m->sandbox_uid()), m->epoch(), get(m->shape())};
  }
  if (is<wire::MachineCapacityFreed>(type)) {
    auto m = codec::parse<wire::MachineCapacityFreed>(type, payload);
    if (!m) return std::unexpected(m.error());
    return CapacityFreed{MachineId(m->machine()), SandboxUid(m->sandbox_uid()), m->epoch()};
  }
  if (is<wire::MachineLost>(type)) {
    auto m = codec::parse<wire::MachineLost>(type, payload);
    if (!m) return std::unexpected(m.error());
    return MachineLost{MachineId(m->machine()), m->incarnation(), at(m->at_us())};
  }
  return fail(Code::kInternal, "UnknownEventType", type + " is not an event of a machine.");
}

std::string MachineCodec::encode_state(const MachineState& s) {
  state::v1::Machine m;
  auto* r = m.mutable_registered();
  r->set_machine(s.machine.str());
  r->set_org(s.org.str());
  put(s.capacity, r->mutable_capacity());
  r->set_data_path(s.data_path);
  r->set_runtime(s.runtime);
  r->set_incarnation(s.incarnation);
  m.set_lost_incarnation(s.lost_incarnation);
  for (const auto& [sandbox, holding] : s.holdings) {
    auto* h = m.add_holdings();
    h->set_sandbox_uid(sandbox.str());
    h->set_epoch(holding.epoch);
    put(holding.shape, h->mutable_shape());
  }
  return m.SerializeAsString();
}

Result<MachineState> MachineCodec::decode_state(const std::string& bytes) {
  auto m = codec::parse<state::v1::Machine>("nodus.scheduler.state.v1.Machine", bytes);
  if (!m) return std::unexpected(m.error());
  MachineState s;
  const auto& r = m->registered();
  s.machine = MachineId(r.machine());
  s.org = OrgId(r.org());
  s.capacity = get(r.capacity());
  s.data_path = r.data_path();
  s.runtime = r.runtime();
  s.incarnation = r.incarnation();
  s.lost_incarnation = m->lost_incarnation();
  for (const auto& h : m->holdings()) {
    s.holdings[SandboxUid(h.sandbox_uid())] = {h.epoch(), get(h.shape())};
    s.used = s.used + get(h.shape());
  }
  return s;
}

}  // namespace nodus::scheduler
