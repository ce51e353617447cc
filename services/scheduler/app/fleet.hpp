// The machines that are heard of right now: leases by the boot clock, what was last told to each node, and
// which machine holds which Sandbox. In memory only: after a restart a machine takes new starts once it has
// synced. Thread-safe.
#pragma once

#include <mutex>
#include <set>
#include <unordered_map>

#include "services/scheduler/app/ports.hpp"
#include "services/scheduler/domain/placement.hpp"

namespace nodus::scheduler {

// The slots that a node was told of, with their epochs: what it has heard when it says that it saw the
// version.
using ToldSlots = std::unordered_map<SandboxUid, int64_t>;

class Fleet {
 public:
  Fleet(const Clock& clock, Micros lease) : clock_(clock), lease_(lease) {}

  // A sync of a registered machine: renews its lease. True when it had none: it takes new starts again.
  bool seen(const MachineRow& machine);
  void refresh(const MachineRow& machine);  // what is taken of it and which Sandboxes it holds
  std::vector<MachineView> live(const OrgId& org) const;
  size_t live_count() const;

  void told(const MachineRow& machine);
  // What the node has heard when it says that it saw `version`: nothing when that cannot be told.
  ToldSlots heard(const MachineRow& machine, int64_t version) const;

  std::optional<MachineId> machine_of(const SandboxUid& sandbox) const;
  std::vector<MachineId> known() const;

 private:
  struct Member {
    MachineView view;
    Micros lease_until{0};  // boot clock
    int64_t told_version = 0;
    ToldSlots told;
    std::set<SandboxUid> holds;
  };

  const Clock& clock_;
  const Micros lease_;
  mutable std::mutex mutex_;
  std::unordered_map<MachineId, Member> members_;
  std::unordered_map<SandboxUid, MachineId> holders_;
};

}  // namespace nodus::scheduler
