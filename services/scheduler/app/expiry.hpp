// Ends offers whose time is over. Deadlines are rows derived from the slots' states, so a restart forgets
// none.
#pragma once

#include "services/scheduler/app/slots.hpp"

namespace nodus::scheduler {

class Expiry {
 public:
  Expiry(const Clock& clock, eventlog::EventLog& log, ReadModel& rows, Slots& slots)
      : clock_(clock), log_(log), rows_(rows), slots_(slots) {}
  // One round; answers how long to wait for the next: half a second at most.
  Millis step();

 private:
  const Clock& clock_;
  eventlog::EventLog& log_;
  ReadModel& rows_;
  Slots& slots_;
};

}  // namespace nodus::scheduler
