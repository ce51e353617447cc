// The `status` of a Sandbox, as JSON: in one read why it is awake, when and why it stops or is deleted next,
// what can be restored, the rate and the cost so far. Of the members only `cost` and
// `restorePoint.ageSeconds` move with time; all others change with the state or the usage.
#pragma once

#include <boost/json.hpp>

#include "services/lifecycle/domain/status.hpp"

namespace nodus::lifecycle {

boost::json::object render_status(const Sandbox& sandbox, const Usage& usage, Instant now);

}  // namespace nodus::lifecycle
