#include "libs/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace nodus {
void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed. %s\n", file, line, expression, detail.c_str());
  std::abort();
}
}  // namespace nodus
