// nodusd put together.
#pragma once

#include "services/executor/config.hpp"

namespace nodus::executor {

// Each returns the program's exit code; what is wrong is one sentence on stderr.
int serve(const Config& config);  // until SIGTERM; Sandboxes go on running
int purge(const Config& config);  // destroys all Sandboxes of this node and what belongs to them

}  // namespace nodus::executor
