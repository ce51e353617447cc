// machine/<id>: what a machine has, whom it serves, and what is taken of it by which slot. Never more than it
// has.
#pragma once

#include <map>
#include <variant>
#include <vector>

#include "libs/base/error.hpp"
#include "services/scheduler/domain/types.hpp"

namespace nodus::scheduler {

// ---- events

struct MachineRegistered {  // again whenever what it says of itself changes
  MachineId machine;
  OrgId org;
  Shape capacity;
  std::string data_path;
  std::string runtime;      // runsc | runc
  std::string incarnation;  // random per boot of the machine
  Instant at{};
  bool operator==(const MachineRegistered&) const = default;
};
struct CapacityTaken {
  MachineId machine;
  SandboxUid sandbox;
  int64_t epoch = 0;
  Shape shape;
  bool operator==(const CapacityTaken&) const = default;
};
struct CapacityFreed {
  MachineId machine;
  SandboxUid sandbox;
  int64_t epoch = 0;
  bool operator==(const CapacityFreed&) const = default;
};
struct MachineLost {  // an operator declared it: this incarnation never gets work again
  MachineId machine;
  std::string incarnation;
  Instant at{};
  bool operator==(const MachineLost&) const = default;
};
using MachineEvent = std::variant<MachineRegistered, CapacityTaken, CapacityFreed, MachineLost>;

// ---- state

struct Holding {
  int64_t epoch = 0;
  Shape shape;
  bool operator==(const Holding&) const = default;
};
struct MachineState {
  MachineId machine;  // empty: never registered
  OrgId org;
  Shape capacity;
  std::string data_path;
  std::string runtime;
  std::string incarnation;
  std::string lost_incarnation;  // the newest that was declared lost
  std::map<SandboxUid, Holding> holdings;
  Shape used;  // the sum of holdings

  bool lost() const { return !machine.empty() && incarnation == lost_incarnation; }

  bool can_take(const OrgId& for_org, const Shape& shape) const {
    return !machine.empty() && !lost() && org == for_org && shape.fits_in(capacity - used);
  }
  // As a machine of its own: nothing else is there, and nothing comes beside it.
  bool can_take_whole(const OrgId& for_org, const Shape& shape) const {
    return holdings.empty() && can_take(for_org, shape);
  }
  bool operator==(const MachineState&) const = default;
};

// ---- commands

struct Register {
  MachineId machine;
  OrgId org;
  Shape capacity;
  std::string data_path;
  std::string runtime;
  std::string incarnation;
};
struct Take {
  SandboxUid sandbox;
  int64_t epoch = 0;
  OrgId org;
  Shape shape;
};
struct Free {
  SandboxUid sandbox;
  int64_t epoch = 0;
};
struct DeclareLost {
  MachineId machine;
};
using MachineCommand = std::variant<Register, Take, Free, DeclareLost>;

struct MachineContext {
  Instant now{};
};

struct MachineAggregate {
  using State = MachineState;
  using Event = MachineEvent;
  using Command = MachineCommand;
  using Context = MachineContext;
  static constexpr int kStateVersion = 1;
  // Errors: Forbidden/OtherOrganization (a machine serves one organization for good),
  // Forbidden/MachineIsLost (a lost incarnation never registers again), Unavailable/MachineFull,
  // NotFound/MachineUnknown.
  static Result<std::vector<Event>> decide(const State& state, const Command& command,
                                           const Context& context);
  static void evolve(State& state, const Event& event);
};

}  // namespace nodus::scheduler
