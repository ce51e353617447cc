// The request target: what is read from it can be written and read again, and never has dot segments.
#include "libs/http/target.hpp"
#include "tests/fuzz/expect.hpp"

using namespace nodus::http;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse_target(bytes);
  if (!parsed) return 0;
  std::string again;
  for (const auto& segment : parsed->segments) {
    EXPECT_THAT_ALWAYS(!segment.empty() && segment != "." && segment != ".." &&
                       segment.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos);
    again += "/" + escape(segment);
  }
  if (again.empty()) again = "/";
  char separator = '?';
  for (const auto& [name, value] : parsed->query) {
    EXPECT_THAT_ALWAYS(value.find('\0') == std::string::npos);
    again += separator + escape(name) + "=" + escape(value);
    separator = '&';
  }
  const auto second = parse_target(again);
  EXPECT_THAT_ALWAYS(second && second->segments == parsed->segments && second->query == parsed->query);
  return 0;
}
