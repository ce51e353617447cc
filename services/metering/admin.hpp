// The operator's commands on prices, credits and the ledger, on the database itself: whoever has its URL is
// the operator. Exit codes as those of the binary: 0, 2 for the command line or a missing dependency, 1 for a
// refusal or a fault that was found.
#pragma once

#include <functional>

#include "services/metering/config.hpp"

namespace CLI {
class App;
}

namespace nodus::metering {

using AdminAction = std::function<int(const Config&)>;

// Declares the commands below `app`; parsing sets `chosen`, which outlives it.
void admin_commands(CLI::App& app, AdminAction& chosen);

}  // namespace nodus::metering
