// slot/<sandbox uid>: all starts of one Sandbox, one after the other. A start is an offer first (planned,
// funded by metering) and a slot on a machine then (reserved, started, stopping, released). An offer ends
// exactly once: lapsed, or as its slot's release. The table state × message is in
// services/scheduler/README.md.
#pragma once

#include <map>
#include <variant>
#include <vector>

#include "libs/base/error.hpp"
#include "services/scheduler/domain/types.hpp"

namespace nodus::scheduler {

// ---- events

struct Planned {
  Order order;
  bool operator==(const Planned&) const = default;
};
struct Offered {
  SlotRef slot;
  Shape shape;
  std::string sharing;  // Shared | Own
  std::string max_cost_usd;
  std::string spent_usd;
  std::string sandbox_name;
  Instant expires_at{};
  Instant at{};
  std::map<std::string, std::string> labels{};
  bool recovery = false;
  std::string machine_type{};  // with Own
  bool operator==(const Offered&) const = default;
};
struct Waiting {  // funded, and no machine has room
  SlotRef slot;
  Instant at{};
  bool operator==(const Waiting&) const = default;
};
enum class LapseReason { kRefused, kExpired, kStopped, kDeleted, kNoCapacity };
struct Lapsed {
  SlotRef slot;
  LapseReason reason{};
  StopReason stop_reason{};
  Instant at{};
  bool operator==(const Lapsed&) const = default;
};
struct Reserved {
  SlotRef slot;
  MachineId machine;
  std::string data_path;
  Times times;
  bool operator==(const Reserved&) const = default;
};
struct Started {
  SlotRef slot;
  std::string runtime;
  Times times;
  bool operator==(const Started&) const = default;
};
struct Stopping {  // again for the same slot when a stronger reason overtakes the first
  SlotRef slot;
  StopReason reason{};
  Instant idle_since{};  // with kIdle
  Times times;
  bool operator==(const Stopping&) const = default;
};
struct Declined {
  SlotRef slot;
  Instant last_activity{};
  bool operator==(const Declined&) const = default;
};
struct Released {
  SlotRef slot;
  StopReason stop_reason{};
  std::string failure;  // empty, StartFailed, Crashed, NodeLost
  std::string message;
  std::optional<RestorePoint> restore_point;
  Times times;
  bool operator==(const Released&) const = default;
};
struct CapRaised {  // of the start under way: metering hears of a start from this stream alone
  SlotRef slot;
  std::string max_cost_usd;
  Instant at{};
  bool operator==(const CapRaised&) const = default;
};

struct RestorePointReleased {  // deleted while it held no slot: nothing of it is stored any more
  SlotRef slot;                // of its newest start
  Instant at{};
  bool operator==(const RestorePointReleased&) const = default;
};

using SlotEvent = std::variant<Planned, Offered, Waiting, Lapsed, Reserved, Started, Stopping, Declined,
                               Released, CapRaised, RestorePointReleased>;

// ---- state

enum class Phase {
  kNone,      // no start under way
  kOffered,   // metering is asked
  kFunded,    // waiting for room
  kReserved,  // billed from here
  kStarted,
  kStopping,
};
const char* phase_name(Phase phase);

struct SlotState {
  Phase phase = Phase::kNone;
  Order order;               // of the start under way; its `start` is the newest ever planned
  std::string machine_type;  // not empty: it gets a machine of its own, of this type
  int64_t epoch = 0;         // of the newest reservation
  Instant expires_at{};
  MachineId machine;  // of the newest reservation
  std::string data_path;
  StopReason stop_reason{};
  Instant idle_since{};
  Times times;
  Instant last_at{};     // newest instant in any event: the next is not before it
  bool deleted = false;  // and the topic was told so

  bool live() const { return phase >= Phase::kReserved; }
  bool pending() const { return phase == Phase::kOffered || phase == Phase::kFunded; }
  bool operator==(const SlotState&) const = default;
};

// ---- commands

struct PlanStart {
  Order order;
};
struct Fund {
  int64_t start = 0;
};
struct Refuse {
  int64_t start = 0;
};
struct Stop {
  int64_t start = 0;
  StopReason reason{};
  Instant idle_since{};
};
struct RaiseCap {  // of whatever start is under way
  std::string max_cost_usd;
};
struct Delete {};  // whatever start is under way
struct Expire {
  int64_t start = 0;
};
struct Place {  // room may have come for a funded start
  int64_t start = 0;
};
enum class NodeSays {
  kStarting,
  kRunning,
  kDeclined,
  kStopping,
  kStopped,
  kFailed,
  kAbsent,    // it had heard of the slot and does not list it
  kRebooted,  // it came up again without it
};
struct Report {
  MachineId machine;
  int64_t epoch = 0;
  NodeSays says{};
  std::string failure;
  std::string message;
  std::string runtime;
  std::optional<RestorePoint> restore_point;
  Instant last_activity{};
  Instant declined{};  // with kDeclined: the idle_since of the stop that it answers
};

struct Lose {  // its machine was declared lost
  MachineId machine;
  int64_t epoch = 0;
  Instant reported_at{};  // the machine's last report that is known: nobody pays for the time after it
};

using SlotCommand =
    std::variant<PlanStart, Fund, Refuse, Stop, Delete, Expire, Place, Report, RaiseCap, Lose>;

struct Room {
  MachineId machine;
  std::string data_path;
};
struct SlotContext {
  Instant now{};
  Micros offer_ttl{};
  std::optional<Room> room;  // for Fund and Place: a machine that can take the shape
  bool may_wait = true;      // for Fund: false when too many wait already
  std::string machine_type =
      {};  // for PlanStart: of the machine of its own that it gets; empty: shared capacity
};

// Whether a node's report is about the slot as it is now, as it was, or none of the node's business.
enum class Standing { kCurrent, kPast, kOtherMachine, kOtherEpoch, kUnknown };
Standing standing(const SlotState& state, const MachineId& machine, int64_t epoch);

struct SlotAggregate {
  using State = SlotState;
  using Event = SlotEvent;
  using Command = SlotCommand;
  using Context = SlotContext;
  static constexpr int kStateVersion = 1;
  // Errors: Conflict/StartNotReleased, Conflict/UnknownStart: a neighbour broke the order of things.
  static Result<std::vector<Event>> decide(const State& state, const Command& command,
                                           const Context& context);
  static void evolve(State& state, const Event& event);
};

}  // namespace nodus::scheduler
