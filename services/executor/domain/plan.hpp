// What to do next about one slot. Pure: the reconciler looks, asks, and does.
#pragma once

#include <optional>

#include "services/executor/domain/slot.hpp"

namespace nodus::executor {

enum class Step {
  kNone,
  kStart,     // make everything, from nothing
  kAdopt,     // it runs already (after a restart of nodusd): open it for commands
  kStop,      // end commands, save, tear down; an idle stop asks first whether it was used since
  kResume,    // the declined stop was taken back
  kDestroy,   // tear down, save nothing, forget
  kForget,    // it is torn down and nobody asks for it: remove the record
  kConclude,  // a stop of a slot that was never here: report it as stopped
};

// What the scheduler wants, as far as this node has heard.
enum class Want {
  kUnknown,  // nothing heard yet, or absent from an incomplete list
  kRun,
  kStop,
  kAbsent,  // absent from a complete list: an order to destroy
};

struct Look {
  Phase phase = Phase::kStarting;
  bool container_alive = false;
  bool opened = false;            // the process side serves it
  std::optional<Order> declined;  // with kDeclined: the stop that was declined; it is not asked again
};

// `slot` is empty when the node has no record of it; `order` holds the newest order, with kRun and kStop.
Step next_step(const std::optional<Look>& slot, Want want, const std::optional<Order>& order);

// An idle stop may go on: nothing runs and nothing used the slot since.
bool idle_holds(const Activity& activity, const std::optional<Instant>& idle_since);

}  // namespace nodus::executor
