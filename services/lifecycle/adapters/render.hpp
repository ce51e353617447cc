// Domain → the JSON that people read.
#pragma once

#include <boost/json.hpp>

#include <optional>

#include "services/lifecycle/app/output_store.hpp"
#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

// How a command ended, as its last frame says it.
struct StreamEnd {
  std::string reason;
  int exit_code = 0;
  std::string message;
};

boost::json::object render_sandbox(const SandboxView& view, Instant now);
// `kept`: the output so far of one that runs.
boost::json::object render_process(const ProcessView& view, const std::optional<OutputSizes>& kept = {});
boost::json::object render_event(const ObjectEvent& event);  // as core/v1 has it

// Exec frames, a line each; see docs/ARCHITECTURE.md.
std::string frame_line(const OutputFrame& frame);
std::string end_line(const StreamEnd& end, const std::string& process);

}  // namespace nodus::lifecycle
