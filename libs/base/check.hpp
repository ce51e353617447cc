// CHECK is always on: a broken invariant ends the process rather than the data. It prints the expression and
// the values given.
#pragma once

#include <fmt/core.h>

#include <string>

namespace nodus {
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& detail);
}  // namespace nodus

#define CHECK(expression, ...)                                                               \
  do {                                                                                       \
    if (!(expression)) [[unlikely]]                                                          \
      ::nodus::check_failed(__FILE__, __LINE__, #expression, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
