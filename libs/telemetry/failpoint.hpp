// Named fault points, for tests of crashes and delays. Off unless the environment variable is set, and then
// loud.
//   NODUS_FAILPOINT=relay.after_publish=kill:3        the third time: SIGKILL to itself
//   NODUS_FAILPOINT=node.before_report=delay:500ms    every time: sleep
//   NODUS_FAILPOINT=log.before_commit=error:1         the first time: the point returns true and its owner
//   fails
// Several points are separated by commas.
#pragma once

#include <string_view>

namespace nodus {
bool failpoint(std::string_view name);  // true: the caller behaves as if the step failed
}
