#include "services/scheduler/app/fleet.hpp"

namespace nodus::scheduler {
namespace {

ToldSlots slots_of(const MachineRow& machine) {
  ToldSlots out;
  for (const auto& row : machine.slots) out[row.sandbox] = row.epoch;
  return out;
}

}  // namespace

bool Fleet::seen(const MachineRow& machine) {
  refresh(machine);
  std::lock_guard lock(mutex_);
  auto& member = members_[machine.machine];
  const bool returned = member.lease_until < clock_.boot();
  member.lease_until = clock_.boot() + lease_;
  return returned;
}

void Fleet::refresh(const MachineRow& machine) {
  std::lock_guard lock(mutex_);
  auto& member = members_[machine.machine];
  member.view = {machine.machine, machine.org, machine.capacity, machine.used};
  if (machine.lost()) member.lease_until = Micros{0};  // no new starts
  std::set<SandboxUid> holds;
  for (const auto& row : machine.slots) holds.insert(row.sandbox);
  for (const auto& sandbox : member.holds) {
    const auto held = holders_.find(sandbox);
    if (!holds.contains(sandbox) && held != holders_.end() && held->second == machine.machine)
      holders_.erase(held);
  }
  for (const auto& sandbox : holds) holders_[sandbox] = machine.machine;
  member.holds = std::move(holds);
}

std::vector<MachineView> Fleet::live(const OrgId& org) const {
  std::lock_guard lock(mutex_);
  std::vector<MachineView> out;
  for (const auto& [id, member] : members_)
    if (member.view.org == org && member.lease_until >= clock_.boot()) out.push_back(member.view);
  return out;
}

size_t Fleet::live_count() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [id, member] : members_) count += member.lease_until >= clock_.boot() ? 1 : 0;
  return count;
}

void Fleet::told(const MachineRow& machine) {
  std::lock_guard lock(mutex_);
  auto& member = members_[machine.machine];
  member.told_version = machine.version;
  member.told = slots_of(machine);
}

ToldSlots Fleet::heard(const MachineRow& machine, int64_t version) const {
  // A version grows with every commit, so the same version is the same list: that also holds after a restart.
  if (version == machine.version) return slots_of(machine);
  std::lock_guard lock(mutex_);
  const auto member = members_.find(machine.machine);
  if (version == 0 || member == members_.end() || member->second.told_version != version) return {};
  return member->second.told;
}

std::optional<MachineId> Fleet::machine_of(const SandboxUid& sandbox) const {
  std::lock_guard lock(mutex_);
  const auto held = holders_.find(sandbox);
  if (held == holders_.end()) return std::nullopt;
  return held->second;
}

std::vector<MachineId> Fleet::known() const {
  std::lock_guard lock(mutex_);
  std::vector<MachineId> out;
  for (const auto& [id, member] : members_) out.push_back(id);
  return out;
}

}  // namespace nodus::scheduler
