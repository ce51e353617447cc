// What comes over the bus: the scheduler's events become Works, and the reader tells how far they are known.
#pragma once

#include "libs/bus/bus.hpp"
#include "services/metering/app/deadlines.hpp"

namespace nodus::metering {

inline constexpr const char* kSchedulerTopic = "scheduler";

bus::Route scheduler_route(Works& works);

// Passes `source` on. One thread polls and applies in turn, so at a poll what the one before gave is applied.
// A partition is known up to the begin of the poll that saw its end, or else up to its last applied message;
// the watermark is the least of the partitions.
std::unique_ptr<bus::Source> watched(std::unique_ptr<bus::Source> source, const Clock& clock,
                                     Watermark& watermark);

}  // namespace nodus::metering
