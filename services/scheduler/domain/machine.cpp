#include "services/scheduler/domain/machine.hpp"

namespace nodus::scheduler {
namespace {

using Events = std::vector<MachineEvent>;

struct Decide {
  const MachineState& s;
  const MachineContext& context;

  Result<Events> operator()(const Register& c) const {
    if (!s.machine.empty() && s.org != c.org)
      return fail(Code::kForbidden, "OtherOrganization",
                  "Machine " + s.machine.str() + " serves organization " + s.org.str() +
                      "; a machine is never handed on.");
    if (!s.lost_incarnation.empty() && c.incarnation == s.lost_incarnation)
      return fail(Code::kForbidden, "MachineIsLost",
                  "Machine " + s.machine.str() +
                      " was declared lost; it registers anew once it has destroyed what it has.");
    if (!s.machine.empty() && s.capacity == c.capacity && s.data_path == c.data_path &&
        s.runtime == c.runtime && s.incarnation == c.incarnation)
      return Events{};
    return Events{
        MachineRegistered{c.machine, c.org, c.capacity, c.data_path, c.runtime, c.incarnation, context.now}};
  }
  Result<Events> operator()(const Take& c) const {
    const auto held = s.holdings.find(c.sandbox);
    if (held != s.holdings.end() && held->second.epoch == c.epoch) return Events{};
    if (held != s.holdings.end() || !s.can_take(c.org, c.shape))
      return fail(Code::kUnavailable, "MachineFull",
                  "Machine " + s.machine.str() + " cannot take Sandbox " + c.sandbox.str() + ".");
    return Events{CapacityTaken{s.machine, c.sandbox, c.epoch, c.shape}};
  }
  Result<Events> operator()(const Free& c) const {
    const auto held = s.holdings.find(c.sandbox);
    if (held == s.holdings.end() || held->second.epoch != c.epoch) return Events{};
    return Events{CapacityFreed{s.machine, c.sandbox, c.epoch}};
  }
  Result<Events> operator()(const DeclareLost& c) const {
    if (s.machine.empty())
      return fail(Code::kNotFound, "MachineUnknown", "No machine " + c.machine.str() + " ever registered.");
    if (s.lost()) return Events{};
    return Events{MachineLost{s.machine, s.incarnation, context.now}};
  }
};

struct Evolve {
  MachineState& s;

  void operator()(const MachineRegistered& e) const {
    s.machine = e.machine;
    s.org = e.org;
    s.capacity = e.capacity;
    s.data_path = e.data_path;
    s.runtime = e.runtime;
    s.incarnation = e.incarnation;
  }
  void operator()(const CapacityTaken& e) const {
    s.holdings[e.sandbox] = {e.epoch, e.shape};
    s.used = s.used + e.shape;
  }
  void operator()(const CapacityFreed& e) const {
    const auto held = s.holdings.find(e.sandbox);
    if (held == s.holdings.end()) return;
    s.used = s.used - held->second.shape;
    s.holdings.erase(held);
  }
  void operator()(const MachineLost& e) const { s.lost_incarnation = e.incarnation; }
};

}  // namespace

Result<std::vector<MachineEvent>> MachineAggregate::decide(const State& state, const Command& command,
                                                           const Context& context) {
  return std::visit(Decide{state, context}, command);
}

void MachineAggregate::evolve(State& state, const Event& event) {
  std::visit(Evolve{state}, event);
}

}  // namespace nodus::scheduler
