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
// that look full come last, because a snapshot may be old; `fitting` says how many did not.
struct Plan {
  std::vector<MachineId> machines;
  size_t fitting = 0;
};
Plan plan_placement(std::span<const MachineView> machines, const OrgId& org, const Shape& shape,
                    size_t limit);

}  // namespace nodus::scheduler
