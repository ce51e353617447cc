// The event log in memory, for unit tests and simulation. Same contract; sql() is null and project() is
// ignored.
#pragma once

#include <memory>

#include "libs/eventlog/event_log.hpp"

namespace nodus::eventlog {
std::unique_ptr<EventLog> make_memory_log(const Clock& clock, int partitions);
}
