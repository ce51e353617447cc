// What the use cases need of the world, in the scheduler's own terms.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libs/base/error.hpp"
#include "libs/eventlog/event_log.hpp"
#include "services/scheduler/domain/machine.hpp"
#include "services/scheduler/domain/slot.hpp"

namespace nodus::scheduler {

// One sync of a node, checked.
struct NodeSync {
  MachineId machine;
  OrgId org;  // empty: the scheduler decides at registration
  std::string incarnation;
  std::string data_path;
  Shape capacity;
  std::string runtime;
  int64_t seen_version = 0;
  struct Slot {
    SandboxUid sandbox;
    Report report;
  };
  std::vector<Slot> slots;
};

struct DesiredRow {
  SandboxUid sandbox;
  int64_t epoch = 0;
  int64_t changes = 0;  // how often what is desired of the slot changed; starts at 1
  Phase phase{};
  std::string desired;  // encoded for the node
};

// A machine as of one instant: its registration and what it shall run.
struct MachineRow {
  MachineId machine;
  OrgId org;
  Shape capacity;
  Shape used;
  std::string data_path;
  std::string runtime;
  std::string incarnation;
  std::string lost_incarnation;  // empty: none was ever declared lost
  Instant seen_at{};             // of a recent sync; written now and then
  int64_t version = 0;           // of the desired state: grows with each commit that changes it
  std::vector<DesiredRow> slots;

  bool is_lost(const std::string& which) const { return !which.empty() && which == lost_incarnation; }
  bool lost() const { return is_lost(incarnation); }
};

struct WaitingStart {
  SandboxUid sandbox;
  int64_t start = 0;
  OrgId org;
  Shape shape;
  bool whole = false;  // for a machine of its own
};

struct DueOffer {
  SandboxUid sandbox;
  int64_t start = 0;
};

// Rows derived from the streams, written in the transaction of the events. Reads take a connection of their
// own.
class ReadModel {
 public:
  virtual ~ReadModel() = default;
  virtual std::function<void(pg::Tx&)> slot_changed(const SlotState& before, const SlotState& after) = 0;
  virtual std::function<void(pg::Tx&)> machine_changed(const MachineState& after) = 0;

  virtual std::function<void(pg::Tx&)> purchased(const OrgId& org, Instant at) = 0;
  // In the transaction of a decision: has the organization ever purchased credits?
  virtual bool has_purchased(pg::Tx& tx, const OrgId& org) = 0;

  virtual Result<std::optional<MachineRow>> machine(const MachineId& machine) = 0;
  virtual Result<std::vector<MachineRow>> machines() = 0;  // by id, without their slots
  virtual Result<void> machine_seen(const MachineId& machine, Instant at) = 0;
  // The oldest of each organization, so that nobody waits behind another's queue; oldest first.
  virtual Result<std::vector<WaitingStart>> waiting(int per_org) = 0;
  virtual Result<int64_t> waiting_count() = 0;
  virtual Result<std::vector<DueOffer>> due_offers(Instant now, int limit) = 0;  // longest overdue first
  virtual Result<std::optional<Instant>> next_due() = 0;
};

inline std::string slot_stream(const SandboxUid& sandbox) {
  return "slot/" + sandbox.str();
}
inline std::string fleet_stream(const OrgId& org) {
  return "fleet/" + org.str();
}
inline std::string machine_stream(const MachineId& machine) {
  return "machine/" + machine.str();
}

}  // namespace nodus::scheduler
