#include "services/scheduler/app/node_syncs.hpp"

#include <unordered_set>

#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::scheduler {
namespace {

constexpr size_t kForeignChecked = 64;  // reports about unknown slots that are looked up in one sync

const char* standing_name(Standing standing) {
  switch (standing) {
    case Standing::kCurrent:
      return "current";
    case Standing::kPast:
      return "past";
    case Standing::kOtherMachine:
      return "machine";
    case Standing::kOtherEpoch:
      return "epoch";
    case Standing::kUnknown:
      return "unknown";
  }
  return "?";
}

void count_refused(const char* reason) {
  metrics::counter("nodus_scheduler_reports_refused_total",
                   "Reports of nodes about slots that are not theirs, or not in that epoch",
                   {{"reason", reason}})
      .add();
}

bool registered(const NodeSync& sync, const MachineRow& row) {
  return row.capacity == sync.capacity && row.data_path == sync.data_path && row.runtime == sync.runtime &&
         row.incarnation == sync.incarnation;
}

// Whether a report can say anything new about a slot in this phase; most of a sync never does.
bool matters(const DesiredRow& slot, NodeSays says) {
  switch (says) {
    case NodeSays::kStarting:
    case NodeSays::kStopping:
      return false;
    case NodeSays::kRunning:
      return slot.phase == Phase::kReserved;
    case NodeSays::kDeclined:
      return slot.phase == Phase::kStopping;
    case NodeSays::kStopped:
    case NodeSays::kFailed:
    case NodeSays::kAbsent:
      return true;
    case NodeSays::kRebooted:
      return slot.phase != Phase::kReserved;
  }
  return false;
}

}  // namespace

NodeSyncs::NodeSyncs(const Clock& clock, eventlog::EventLog& log, ReadModel& rows, Slots& slots, Fleet& fleet,
                     FleetPolicy policy, Micros lease, std::function<void()> room_came)
    : clock_(clock),
      log_(log),
      rows_(rows),
      slots_(slots),
      fleet_(fleet),
      policy_(std::move(policy)),
      seen_every_(lease / 3),
      room_came_(std::move(room_came)) {}

Result<OrgId> NodeSyncs::org_of(const NodeSync& sync, const MachineRow* known) const {
  OrgId org = sync.org;
  if (!policy_.machines.empty()) {
    const auto listed = policy_.machines.find(sync.machine);
    if (listed == policy_.machines.end())
      return fail(Code::kForbidden, "MachineUnknown",
                  "Machine " + sync.machine.str() + " is not in scheduler.machines.");
    if (!org.empty() && org != listed->second)
      return fail(Code::kForbidden, "OtherOrganization",
                  "Machine " + sync.machine.str() + " is configured to serve another organization.");
    return listed->second;
  }
  if (org.empty() && known != nullptr) return known->org;
  if (org.empty()) org = policy_.default_org;
  if (org.empty())
    return fail(Code::kInvalid, "NoOrganization",
                "Machine " + sync.machine.str() +
                    " names no organization, and scheduler.machines and scheduler.defaultOrg are empty.");
  return org;
}

void NodeSyncs::count_foreign(const SandboxUid& sandbox, const Report& report) {
  auto slot = slots_.state(sandbox);
  if (!slot) return;
  const auto found = standing(*slot, report.machine, report.epoch);
  // Current: it was reserved after the row was read. Past: the node has not heard of the release yet.
  if (found == Standing::kCurrent || found == Standing::kPast) return;
  count_refused(standing_name(found));
  log::warn("report_refused", {{"machine", report.machine.str()},
                               {"sandbox", sandbox.str()},
                               {"epoch", report.epoch},
                               {"reason", std::string(standing_name(found))}});
}

// The reports that can change something, with those that the silence of the node makes.
std::vector<NodeSync::Slot> NodeSyncs::telling(const NodeSync& sync, const MachineRow& row) {
  const auto heard = fleet_.heard(row, sync.seen_version);
  std::unordered_map<SandboxUid, const DesiredRow*> wanted;
  for (const auto& slot : row.slots) wanted[slot.sandbox] = &slot;
  std::vector<NodeSync::Slot> out;
  std::unordered_set<SandboxUid> listed;
  size_t foreign = 0;
  for (const auto& slot : sync.slots) {
    const auto want = wanted.find(slot.sandbox);
    if (want == wanted.end() || want->second->epoch != slot.report.epoch) {
      if (++foreign <= kForeignChecked) count_foreign(slot.sandbox, slot.report);
      continue;
    }
    listed.insert(slot.sandbox);
    if (!matters(*want->second, slot.report.says)) continue;
    out.push_back(slot);
  }
  const bool rebooted = row.incarnation != sync.incarnation;
  for (const auto& slot : row.slots) {
    if (listed.contains(slot.sandbox)) continue;
    const auto told = heard.find(slot.sandbox);
    const bool knew = told != heard.end() && told->second == slot.epoch;
    const auto says = rebooted ? NodeSays::kRebooted : NodeSays::kAbsent;
    if ((!knew && !rebooted) || !matters(slot, says)) continue;
    Report report;
    report.machine = sync.machine;
    report.epoch = slot.epoch;
    report.says = says;
    out.push_back({slot.sandbox, std::move(report)});
  }
  return out;
}

Result<NodeSyncs::Outcome> NodeSyncs::apply_reports(const NodeSync& sync, const MachineRow& row) {
  std::vector<eventlog::Work> works;
  Outcome outcome;
  for (auto& slot : telling(sync, row)) {
    const auto says = slot.report.says;
    outcome.released |= says != NodeSays::kRunning && says != NodeSays::kDeclined;
    works.push_back(slots_.report(slot.sandbox, std::move(slot.report)));
  }
  if (works.empty()) return outcome;
  for (const auto& result : log_.run(works)) {
    if (result) {
      outcome.changed |= *result == "changed";
      continue;
    }
    log::warn("report_failed", {{"machine", sync.machine.str()}, {"error", result.error().message}});
    if (retryable(result.error().code)) return std::unexpected(result.error());
  }
  outcome.released &= outcome.changed;
  return outcome;
}

Result<MachineRow> NodeSyncs::apply(const NodeSync& sync) {
  auto row = rows_.machine(sync.machine);
  if (!row) return std::unexpected(row.error());
  auto org = org_of(sync, *row ? &**row : nullptr);
  if (!org) return std::unexpected(org.error());
  if (*row && (*row)->org != *org)
    return fail(
        Code::kForbidden, "OtherOrganization",
        "Machine " + sync.machine.str() + " serves another organization; a machine is never handed on.");
  if (*row && (*row)->is_lost(sync.incarnation)) {  // what it says counts no more
    fleet_.refresh(**row);
    return **row;
  }
  Outcome outcome;
  if (*row) {
    // Before the registration: a crash in between finds the reboot again.
    auto applied = apply_reports(sync, **row);
    if (!applied) return std::unexpected(applied.error());
    outcome = *applied;
  }
  const bool registering = !*row || !registered(sync, **row);
  if (registering) {
    const std::vector works{slots_.registration(
        {sync.machine, *org, sync.capacity, sync.data_path, sync.runtime, sync.incarnation})};
    const auto results = log_.run(works);
    if (!results.front()) return std::unexpected(results.front().error());
    log::info("machine_registered", {{"machine", sync.machine.str()},
                                     {"org", org->str()},
                                     {"runtime", sync.runtime},
                                     {"incarnation", sync.incarnation}});
  }
  if (registering || outcome.changed) {
    row = rows_.machine(sync.machine);
    if (!row) return std::unexpected(row.error());
    if (!*row) return fail(Code::kInternal, "MachineVanished", "A registered machine has no row.");
  }
  const auto now = clock_.now();
  if (now - (*row)->seen_at > seen_every_ || now < (*row)->seen_at)
    if (auto seen = rows_.machine_seen(sync.machine, now); !seen)
      log::warn("machine_seen_failed", {{"error", seen.error().message}});
  const bool returned = fleet_.seen(**row);
  if (registering || returned || outcome.released) room_came_();
  return **row;
}

Result<MachineRow> NodeSyncs::desired(const MachineId& machine) {
  auto row = rows_.machine(machine);
  if (!row) return std::unexpected(row.error());
  if (!*row) return fail(Code::kInternal, "MachineVanished", "A registered machine has no row.");
  fleet_.refresh(**row);
  return **row;
}

}  // namespace nodus::scheduler
