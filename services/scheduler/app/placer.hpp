// Gives waiting starts the room that came: oldest first, and a smaller one behind a larger one that does not
// fit.
#pragma once

#include "services/scheduler/app/slots.hpp"

namespace nodus::scheduler {

class Placer {
 public:
  Placer(eventlog::EventLog& log, ReadModel& rows, Slots& slots) : log_(log), rows_(rows), slots_(slots) {}
  // One round; answers how long to wait for the next unless room comes or a start begins to wait.
  Millis step();

 private:
  eventlog::EventLog& log_;
  ReadModel& rows_;
  Slots& slots_;
};

}  // namespace nodus::scheduler
