// Makes the Works of the scheduler: a command to a slot, together with the machine whose capacity it takes or
// gives back, and the rows that follow.
#pragma once

#include <atomic>

#include "services/scheduler/app/fleet.hpp"
#include "services/scheduler/app/ports.hpp"

namespace nodus::scheduler {

struct SlotsOptions {
  Micros offer_ttl = Seconds(60);
  int64_t waiting_limit = 10'000;  // funded starts without room; beyond, an offer lapses at once
  SharedLimit shared{};
};

class Slots {
 public:
  Slots(const Clock& clock, eventlog::EventLog& log, ReadModel& rows, Fleet& fleet, SlotsOptions options)
      : clock_(clock), log_(log), rows_(rows), fleet_(fleet), options_(options) {}

  // For Fund and Place the Work names the machines to try, best first: the slot's shape is read for that.
  Result<eventlog::Work> work(const SandboxUid& sandbox, SlotCommand command);
  // A node's report names its machine, whose capacity a release gives back.
  eventlog::Work report(const SandboxUid& sandbox, Report report);
  eventlog::Work place(const SandboxUid& sandbox, int64_t start, std::vector<MachineId> candidates);
  eventlog::Work registration(Register command);
  // An operator's word that a machine is lost, and what follows for each of its slots.
  eventlog::Work loss(const MachineId& machine);
  eventlog::Work lose(const SandboxUid& sandbox, const Lose& command);

  eventlog::Work first_purchase(const OrgId& org, Instant at);  // lifts the limit on its shared capacity

  Result<SlotState> state(const SandboxUid& sandbox);
  Plan plan(const OrgId& org, const Shape& shape, bool whole) const;
  void waiting_count(int64_t count) { waiting_ = count; }

 private:
  bool shares(eventlog::Unit& unit, const Order& order);
  eventlog::Work of_machine(const MachineId& machine, MachineCommand command);
  eventlog::Work make(const SandboxUid& sandbox, SlotCommand command, std::vector<MachineId> machines);
  Result<std::string> decide(eventlog::Unit& unit, const SandboxUid& sandbox, const SlotCommand& command,
                             const std::vector<MachineId>& machines);

  const Clock& clock_;
  eventlog::EventLog& log_;
  ReadModel& rows_;
  Fleet& fleet_;
  const SlotsOptions options_;
  std::atomic<int64_t> waiting_{0};
};

}  // namespace nodus::scheduler
