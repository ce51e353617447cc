// An errno as an Error: what was tried, on what, and what the kernel said.
#pragma once

#include <string>
#include <string_view>

#include "libs/base/error.hpp"

namespace nodus::linux {

// "mount /x: Permission denied". Code::kInternal, reason SystemCallFailed.
std::unexpected<Error> system_failure(int error_number, std::string_view what, std::string_view on = {});

}  // namespace nodus::linux
