// The request target: path segments and query, decoded once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::http {

struct ParsedTarget {
  std::vector<std::string> segments;
  std::multimap<std::string, std::string> query;
};

// Origin form only ("/path?query"). Refused with BadRequest/MalformedRequest: empty and dot segments, encoded
// slashes, control characters (also encoded), broken escapes, fragments. In a query "+" is a space.
Result<ParsedTarget> parse_target(std::string_view target);

// For building targets: everything but unreserved characters (and "/" if asked) is escaped.
std::string escape(std::string_view text, bool keep_slashes = false);

}  // namespace nodus::http
