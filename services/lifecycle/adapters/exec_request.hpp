// What a client asks to be run: parsed, checked, every fault with its field path.
#pragma once

#include <boost/json.hpp>

#include <string>

#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/app/sandboxes.hpp"

namespace nodus::lifecycle {

struct ExecRequest {
  NewProcess process;
  boost::json::object body;  // as sent: env, workingDir and stdin go to the node only
};

Result<ExecRequest> parse_exec(const std::string& body, const SpecTimes& times);

}  // namespace nodus::lifecycle
