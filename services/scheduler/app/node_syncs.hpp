// One sync of a node: what it reports becomes facts of its slots, and it hears what it shall run.
#pragma once

#include "services/scheduler/app/slots.hpp"

namespace nodus::scheduler {

struct FleetPolicy {
  // Machines that may register and whom they serve. Empty: any machine whose token verifies may, for the
  // organization it names, or else default_org.
  std::unordered_map<MachineId, OrgId> machines;
  OrgId default_org;
};

class NodeSyncs {
 public:
  // `room_came` is called after a commit that may let a waiting start be placed.
  NodeSyncs(const Clock& clock, eventlog::EventLog& log, ReadModel& rows, Slots& slots, Fleet& fleet,
            FleetPolicy policy, Micros lease, std::function<void()> room_came);

  // Applies the reports, registers the machine when it is new or changed, renews its lease. Blocks on the
  // database; commits only when something changed. Errors: Forbidden/OtherOrganization,
  // Forbidden/MachineUnknown, Invalid/NoOrganization, Unavailable/… (the node tries again).
  Result<MachineRow> apply(const NodeSync& sync);
  // What the machine shall run now, to be sent: what the node says next is judged by it.
  Result<MachineRow> desired(const MachineId& machine);

 private:
  struct Outcome {
    bool changed = false;
    bool released = false;
  };
  Result<Outcome> apply_reports(const NodeSync& sync, const MachineRow& row);
  std::vector<NodeSync::Slot> telling(const NodeSync& sync, const MachineRow& row);
  void count_foreign(const SandboxUid& sandbox, const Report& report);
  Result<OrgId> org_of(const NodeSync& sync, const MachineRow* known) const;

  const Clock& clock_;
  eventlog::EventLog& log_;
  ReadModel& rows_;
  Slots& slots_;
  Fleet& fleet_;
  const FleetPolicy policy_;
  const Micros seen_every_;
  const std::function<void()> room_came_;
};

}  // namespace nodus::scheduler
