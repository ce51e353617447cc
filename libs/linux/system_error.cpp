#include "libs/linux/system_error.hpp"

#include <system_error>

namespace nodus::linux {

std::unexpected<Error> system_failure(int error_number, std::string_view what, std::string_view on) {
  std::string message(what);
  if (!on.empty()) message.append(" ").append(on);
  message.append(": ").append(std::generic_category().message(error_number));
  return fail(Code::kInternal, "SystemCallFailed", std::move(message));
}

}  // namespace nodus::linux
