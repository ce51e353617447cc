// Domain → the JSON that people read.
#pragma once

#include <boost/json.hpp>

#include <optional>

#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

boost::json::object render_sandbox(const SandboxView& view, Instant now);
boost::json::object render_process(const ProcessView& view);
boost::json::object render_event(const ObjectEvent& event);  // as core/v1 has it
std::string end_frame(const Process& process);               // the last exec frame, from the record

}  // namespace nodus::lifecycle
