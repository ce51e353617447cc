#include "services/scheduler/domain/placement.hpp"

#include <tuple>

namespace nodus::scheduler {
namespace {

// What would be left, in millionths of the machine, summed over cpu and memory; disk is rarely what binds.
int64_t left_over(const MachineView& m, const Shape& shape) {
  const Shape room = m.capacity - m.used - shape;
  auto part = [](int64_t left, int64_t whole) {
    return whole <= 0 ? 0 : static_cast<int64_t>(static_cast<__int128>(left) * 1'000'000 / whole);
  };
  return part(room.cpu_milli, m.capacity.cpu_milli) + part(room.memory_bytes, m.capacity.memory_bytes);
}

}  // namespace

Plan plan_placement(std::span<const MachineView> machines, const OrgId& org, const Shape& shape, size_t limit,
                    bool whole) {
  std::vector<std::tuple<bool, int64_t, MachineId>> ranked;  // (full, left over, id): the id makes it total
  for (const auto& m : machines) {
    if (m.org != org || !shape.fits_in(m.capacity)) continue;
    const bool full = whole ? m.used != Shape{} : !shape.fits_in(m.capacity - m.used);
    ranked.emplace_back(full, left_over(m, shape), m.id);
  }
  std::sort(ranked.begin(), ranked.end());
  Plan plan;
  for (const auto& [full, left, id] : ranked) {
    if (plan.machines.size() == limit) break;
    plan.machines.push_back(id);
    if (!full) ++plan.fitting;
  }
  return plan;
}

const std::string& SharedLimit::type_for(const Shape& shape) const {
  for (const auto& type : types)
    if (shape.fits_in(type.capacity)) return type.name;
  return types.back().name;
}

}  // namespace nodus::scheduler
