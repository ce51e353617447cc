// Domain → the JSON that people read.
#pragma once

#include <boost/json.hpp>

#include <optional>

#include "services/lifecycle/domain/process.hpp"
#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle {

boost::json::object render_sandbox(const Sandbox& sandbox, bool busy, Instant now);
boost::json::object render_process(const Process& process);
std::string end_frame(const Process& process);  // the last exec frame, from the record

}  // namespace nodus::lifecycle
