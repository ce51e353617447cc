// What comes over the bus: the scheduler's events become Works, and the reader tells how far they are known.
#pragma once

#include "libs/bus/bus.hpp"
#include "services/metering/app/deadlines.hpp"

namespace nodus::metering {

inline constexpr const char* kSchedulerTopic = "scheduler";

bus::Route scheduler_route(Works& works);

// Passes `source` on. A poll that finds nothing means that all published before it began is applied, because
// one thread polls and applies in turn.
std::unique_ptr<bus::Source> watched(std::unique_ptr<bus::Source> source, const Clock& clock,
                                     Watermark& watermark);

}  // namespace nodus::metering
