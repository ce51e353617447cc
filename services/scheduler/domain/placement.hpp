// Where a start may go: snapshot in, plan out. The plan is only a proposal; the commit checks the machine's
// head.
#pragma once

#include <span>
#include <vector>

#include "services/scheduler/domain/types.hpp"

namespace nodus::scheduler {

struct MachineView {  // of a machine with a live lease
  MachineId id;
  OrgId org;
  Shape capacity;
  Shape used;
};

// The organization's machines to try, best fit first (the least room left over), at most `limit`. Machines
// that look full come last, because a snapshot may be old; `fitting` says how many did not. `whole`: for a
// machine of its own, where any that is not empty is full.
struct Plan {
  std::vector<MachineId> machines;
  size_t fitting = 0;
};
Plan plan_placement(std::span<const MachineView> machines, const OrgId& org, const Shape& shape, size_t limit,
                    bool whole = false);

// What of shared capacity an organization may use before its first purchase, and the machines of their own
// that larger starts get instead. Without any types there is nowhere else to go, and no limit.
struct MachineType {
  std::string name;  // in the price book
  Shape capacity;
};
struct SharedLimit {
  int64_t cpu_milli = 3'000;
  int64_t memory_bytes = 11LL << 30;
  std::vector<MachineType> types{};

  bool within(const Shape& shape) const {
    return types.empty() || (shape.cpu_milli <= cpu_milli && shape.memory_bytes <= memory_bytes);
  }
  // The first that can take the shape, else the last.
  const std::string& type_for(const Shape& shape) const;
};

}  // namespace nodus::scheduler
