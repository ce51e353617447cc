// What a person should hear about a Sandbox besides what they asked for, on stderr.
#pragma once

#include <boost/json/value.hpp>

#include "cli/console.hpp"

namespace nodus::cli {

// "warning: it cannot start yet: …", when money keeps it from starting.
void warn_if_unfunded(Console& console, const boost::json::value& sandbox);
// "warning: sandboxes/hello is deleted in 9m, with its files: …", in the last tenth of its maxLifetime, at
// most an hour before its end.
void warn_before_its_end(Console& console, const boost::json::value& sandbox);

}  // namespace nodus::cli
