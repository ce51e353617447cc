#include "services/scheduler/domain/slot.hpp"

namespace nodus::scheduler {
namespace {

using Events = std::vector<SlotEvent>;
constexpr size_t kMaxMessageBytes = 1024;

SlotRef ref(const SlotState& s, int64_t epoch) {
  return {s.order.sandbox, s.order.start, epoch, s.order.org, s.order.project};
}

Instant not_before(const SlotState& s, Instant now) {
  return std::max(s.last_at, now);
}

std::unexpected<Error> unknown_start(const SlotState& s, int64_t start) {
  return fail(Code::kConflict, "UnknownStart",
              "Start " + std::to_string(start) + " was never planned here; the newest is " +
                  std::to_string(s.order.start) + ".");
}

Events lapse(const SlotState& s, LapseReason reason, StopReason stop_reason, Instant now) {
  return {Lapsed{ref(s, 0), reason, stop_reason, not_before(s, now)}};
}

Events reserve(const SlotState& s, const Room& room, Instant now) {
  Times times;
  times.reserved_at = not_before(s, now);
  return {Reserved{ref(s, s.epoch + 1), room.machine, room.data_path, times}};
}

Events release(const SlotState& s, std::string failure, std::string message,
               std::optional<RestorePoint> restore_point, Instant now) {
  Times times = s.times;
  times.released_at = not_before(s, now);
  if (message.size() > kMaxMessageBytes) message.resize(kMaxMessageBytes);
  if (s.stop_reason == StopReason::kDelete) restore_point.reset();
  return {Released{ref(s, s.epoch), s.stop_reason, std::move(failure), std::move(message),
                   std::move(restore_point), times}};
}

// Nothing overtakes a delete; an idle stop, which may be declined, yields to any other.
bool overtakes(StopReason next, StopReason current) {
  if (next == current || current == StopReason::kDelete) return false;
  return next == StopReason::kDelete || current == StopReason::kIdle;
}

Events stop(const SlotState& s, StopReason reason, Instant idle_since, Instant now) {
  const bool deleting = reason == StopReason::kDelete;
  switch (s.phase) {
    case Phase::kNone:
      return {};
    case Phase::kOffered:
    case Phase::kFunded:
      return lapse(s, deleting ? LapseReason::kDeleted : LapseReason::kStopped, reason, now);
    case Phase::kReserved:
    case Phase::kStarted:
      break;
    case Phase::kStopping:
      if (!overtakes(reason, s.stop_reason)) return {};
      break;
  }
  Times times = s.times;
  if (times.stopping_at == kNever) times.stopping_at = not_before(s, now);
  if (reason != StopReason::kIdle) idle_since = kNever;
  return {Stopping{ref(s, s.epoch), reason, idle_since, times}};
}

Events report_absent(const SlotState& s, NodeSays says, Instant now) {
  // A slot that was never up loses nothing when its machine comes up again: the node starts it then.
  if (says == NodeSays::kRebooted && s.phase == Phase::kReserved) return {};
  if (s.stop_reason == StopReason::kDelete) return release(s, "", "", std::nullopt, now);
  return release(
      s, "Crashed",
      says == NodeSays::kRebooted ? "The machine was restarted." : "The machine no longer has the Sandbox.",
      std::nullopt, now);
}

std::string failure_of(const SlotState& s, const std::string& reported) {
  if (reported == "StartFailed" || reported == "Crashed") return reported;
  return s.times.started_at == kNever ? "StartFailed" : "Crashed";
}

Events on_report(const SlotState& s, const Report& r, Instant now) {
  if (standing(s, r.machine, r.epoch) != Standing::kCurrent) return {};
  switch (r.says) {
    case NodeSays::kStarting:
    case NodeSays::kStopping:
      return {};
    case NodeSays::kRunning: {
      if (s.phase != Phase::kReserved) return {};
      Times times = s.times;
      times.started_at = not_before(s, now);
      return {Started{ref(s, s.epoch), r.runtime, times}};
    }
    case NodeSays::kDeclined:
      if (s.phase != Phase::kStopping || s.stop_reason != StopReason::kIdle) return {};
      // The words may be late and of an older order: a decline names the stop that it answers.
      if (r.declined != s.idle_since) return {};
      return {Declined{ref(s, s.epoch), r.last_activity}};
    case NodeSays::kStopped:
      if (s.phase == Phase::kStopping) return release(s, "", r.message, r.restore_point, now);
      return release(s, "Crashed", "The machine stopped the Sandbox without being asked to.", r.restore_point,
                     now);
    case NodeSays::kFailed:
      return release(s, failure_of(s, r.failure), r.message, r.restore_point, now);
    case NodeSays::kAbsent:
    case NodeSays::kRebooted:
      return report_absent(s, r.says, now);
  }
  return {};
}

Events lose(const SlotState& s, const Lose& c, Instant now) {
  if (standing(s, c.machine, c.epoch) != Standing::kCurrent) return {};
  Times times = s.times;
  // That it started is a report too.
  times.released_at = std::max({times.reserved_at, times.started_at, std::min(c.reported_at, now)});
  if (times.stopping_at > times.released_at) times.stopping_at = kNever;  // the order reached nobody
  return {Released{ref(s, s.epoch), s.stop_reason, "NodeLost", "The machine was lost.", std::nullopt, times}};
}

struct Decide {
  const SlotState& s;
  const SlotContext& context;

  Result<Events> operator()(const PlanStart& c) const {
    if (c.order.start <= s.order.start) return Events{};
    if (s.phase != Phase::kNone)
      return fail(Code::kConflict, "StartNotReleased",
                  "Start " + std::to_string(c.order.start) + " was asked for while start " +
                      std::to_string(s.order.start) + " is " + phase_name(s.phase) + ".");
    const Instant at = not_before(s, context.now);
    const Order& o = c.order;
    const SlotRef slot{o.sandbox, o.start, 0, o.org, o.project};
    const char* sharing = context.machine_type.empty() ? "Shared" : "Own";
    return Events{Planned{o},
                  Offered{slot, o.shape, sharing, o.max_cost_usd, o.spent_usd, o.name, at + context.offer_ttl,
                          at, o.labels, o.recovery, context.machine_type}};
  }
  Result<Events> operator()(const Fund& c) const {
    if (c.start > s.order.start) return unknown_start(s, c.start);
    if (c.start < s.order.start || s.phase != Phase::kOffered) return Events{};
    if (context.room) return reserve(s, *context.room, context.now);
    if (!context.may_wait) return lapse(s, LapseReason::kNoCapacity, StopReason::kNone, context.now);
    return Events{Waiting{ref(s, 0), not_before(s, context.now)}};
  }
  Result<Events> operator()(const Refuse& c) const {
    if (c.start > s.order.start) return unknown_start(s, c.start);
    if (c.start < s.order.start || !s.pending()) return Events{};
    return lapse(s, LapseReason::kRefused, StopReason::kNone, context.now);
  }
  Result<Events> operator()(const Stop& c) const {
    if (c.start > s.order.start) return unknown_start(s, c.start);
    if (c.start < s.order.start) return Events{};
    return stop(s, c.reason, c.idle_since, context.now);
  }
  Result<Events> operator()(const Delete&) const {
    if (s.phase != Phase::kNone) return stop(s, StopReason::kDelete, kNever, context.now);
    if (s.order.start == 0 || s.deleted) return Events{};
    return Events{RestorePointReleased{ref(s, 0), not_before(s, context.now)}};
  }
  Result<Events> operator()(const RaiseCap& c) const {
    if (s.phase == Phase::kNone || s.order.max_cost_usd == c.max_cost_usd) return Events{};
    return Events{CapRaised{ref(s, s.live() ? s.epoch : 0), c.max_cost_usd, not_before(s, context.now)}};
  }
  Result<Events> operator()(const Expire& c) const {
    if (c.start != s.order.start || !s.pending() || context.now < s.expires_at) return Events{};
    const bool waited = s.phase == Phase::kFunded;
    return lapse(s, waited ? LapseReason::kNoCapacity : LapseReason::kExpired, StopReason::kNone,
                 context.now);
  }
  Result<Events> operator()(const Place& c) const {
    if (c.start != s.order.start || s.phase != Phase::kFunded || !context.room) return Events{};
    return reserve(s, *context.room, context.now);
  }
  Result<Events> operator()(const Report& c) const { return on_report(s, c, context.now); }
  Result<Events> operator()(const Lose& c) const { return lose(s, c, context.now); }
};

struct Evolve {
  SlotState& s;

  void saw(Instant at) const { s.last_at = std::max(s.last_at, at); }

  void operator()(const Planned& e) const {
    s.order = e.order;
    s.times = {};
    s.stop_reason = StopReason::kNone;
    s.idle_since = kNever;
  }
  void operator()(const Offered& e) const {
    s.phase = Phase::kOffered;
    s.machine_type = e.machine_type;
    s.expires_at = e.expires_at;
    saw(e.at);
  }
  void operator()(const Waiting& e) const {
    s.phase = Phase::kFunded;
    saw(e.at);
  }
  void operator()(const Lapsed& e) const {
    s.phase = Phase::kNone;
    s.expires_at = kNever;
    s.deleted |= e.reason == LapseReason::kDeleted;
    saw(e.at);
  }
  void operator()(const Reserved& e) const {
    s.phase = Phase::kReserved;
    s.epoch = e.slot.epoch;
    s.machine = e.machine;
    s.data_path = e.data_path;
    s.expires_at = kNever;
    s.times = e.times;
    saw(e.times.reserved_at);
  }
  void operator()(const Started& e) const {
    s.phase = Phase::kStarted;
    s.times = e.times;
    saw(e.times.started_at);
  }
  void operator()(const Stopping& e) const {
    s.phase = Phase::kStopping;
    s.stop_reason = e.reason;
    s.idle_since = e.idle_since;
    s.times = e.times;
    saw(e.times.stopping_at);
  }
  void operator()(const Declined&) const {
    s.phase = s.times.started_at == kNever ? Phase::kReserved : Phase::kStarted;
    s.stop_reason = StopReason::kNone;
    s.idle_since = kNever;
    s.times.stopping_at = kNever;
  }
  void operator()(const CapRaised& e) const {
    s.order.max_cost_usd = e.max_cost_usd;
    saw(e.at);
  }
  void operator()(const Released& e) const {
    s.phase = Phase::kNone;
    s.times = e.times;
    s.deleted |= e.stop_reason == StopReason::kDelete;
    saw(e.times.released_at);
  }
  void operator()(const RestorePointReleased& e) const {
    s.deleted = true;
    saw(e.at);
  }
};

}  // namespace

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kNone:
      return "None";
    case Phase::kOffered:
      return "Offered";
    case Phase::kFunded:
      return "Funded";
    case Phase::kReserved:
      return "Reserved";
    case Phase::kStarted:
      return "Started";
    case Phase::kStopping:
      return "Stopping";
  }
  return "?";
}

Standing standing(const SlotState& state, const MachineId& machine, int64_t epoch) {
  if (state.epoch == 0 || epoch <= 0 || epoch > state.epoch) return Standing::kUnknown;
  if (epoch < state.epoch) return Standing::kOtherEpoch;
  if (machine != state.machine) return Standing::kOtherMachine;
  return state.live() ? Standing::kCurrent : Standing::kPast;
}

Result<std::vector<SlotEvent>> SlotAggregate::decide(const State& state, const Command& command,
                                                     const Context& context) {
  return std::visit(Decide{state, context}, command);
}

void SlotAggregate::evolve(State& state, const Event& event) {
  std::visit(Evolve{state}, event);
}

}  // namespace nodus::scheduler
