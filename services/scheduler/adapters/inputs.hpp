// Topics of the neighbours → Works of the scheduler.
#pragma once

#include <string>

#include "libs/bus/bus.hpp"
#include "services/scheduler/app/slots.hpp"

namespace nodus::scheduler {
bus::Route make_route(const std::string& topic, Slots& slots);  // "lifecycle" or "metering"
}
