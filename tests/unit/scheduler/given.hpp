// Slots in each state, and what an outcome reads like in the table of services/scheduler/README.md.
#pragma once

#include <string>

#include "services/scheduler/domain/slot.hpp"

namespace nodus::scheduler::test {

inline const Instant kT0 = from_micros(1'700'000'000'000'000);
inline constexpr Micros kTtl = Seconds(60);
inline const MachineId kMachine("m1");
inline const Room kRoom{kMachine, "10.0.0.1:7410"};

inline Order order(int64_t start, const std::string& uid = "u1") {
  Order o;
  o.sandbox = SandboxUid(uid);
  o.start = start;
  o.org = OrgId("acme");
  o.project = ProjectId("web");
  o.name = "hello";
  o.image = "nodus/agent-tools";
  o.shape = {1000, 1 << 30, 10LL << 30};
  o.continuity_mode = "Snapshotted";
  return o;
}

inline RestorePoint restore_point() {
  return {"acme/u1/2/2/1", std::string(64, 'a'), 42, kT0};
}

// A slot driven by commands, one second apart.
class Driver {
 public:
  SlotState state;
  Instant now = kT0;

  Result<std::vector<SlotEvent>> when(const SlotCommand& command, bool room = false, bool may_wait = true) {
    SlotContext context{now, kTtl, std::nullopt, may_wait};
    if (room) context.room = kRoom;
    auto events = SlotAggregate::decide(state, command, context);
    if (events)
      for (const auto& e : *events) SlotAggregate::evolve(state, e);
    now += Seconds(1);
    return events;
  }
  Driver& given(const SlotCommand& command, bool room = false) {
    auto events = when(command, room);
    if (!events) throw std::logic_error(events.error().message);
    return *this;
  }
  Report report(NodeSays says) const {
    Report r;
    r.machine = state.machine;
    r.epoch = state.epoch;
    r.says = says;
    r.runtime = "runsc";
    r.declined = state.idle_since;
    return r;
  }
};

inline const char* name(StopReason reason) {
  static constexpr const char* kNames[] = {
      "", "User", "Idle", "InsufficientCredits", "BudgetExceeded", "MaxCostReached", "Delete"};
  return kNames[static_cast<int>(reason)];
}

inline std::string braces(const std::string& a, const std::string& b) {
  if (a.empty() && b.empty()) return "";
  return "{" + a + (a.empty() || b.empty() ? "" : " ") + b + "}";
}

struct Describe {
  std::string operator()(const Planned&) const { return "SlotPlanned"; }
  std::string operator()(const Offered&) const { return "SlotOffered"; }
  std::string operator()(const Waiting&) const { return "SlotPlanned{waiting}"; }
  std::string operator()(const Lapsed& e) const {
    static constexpr const char* kNames[] = {"Refused", "Expired", "Stopped", "Deleted", "NoCapacity"};
    return "OfferLapsed" + braces(kNames[static_cast<int>(e.reason)], name(e.stop_reason));
  }
  std::string operator()(const Reserved&) const { return "SlotReserved"; }
  std::string operator()(const Started&) const { return "SandboxStarted"; }
  std::string operator()(const Stopping& e) const { return "SlotStopping" + braces(name(e.reason), ""); }
  std::string operator()(const Declined&) const { return "StopDeclined"; }
  std::string operator()(const CapRaised&) const { return "MaxCostRaised"; }
  std::string operator()(const RestorePointReleased&) const { return "RestorePointReleased"; }
  std::string operator()(const Released& e) const {
    return "SlotReleased" + braces(name(e.stop_reason), e.failure);
  }
};

inline std::string describe(const Result<std::vector<SlotEvent>>& outcome) {
  if (!outcome) return outcome.error().reason;
  std::string text;
  for (const auto& e : *outcome) text += (text.empty() ? "" : " ") + std::visit(Describe{}, e);
  return text.empty() ? "-" : text;
}

}  // namespace nodus::scheduler::test
