// The body of a request that shall be a JSON object. The one place that reads what clients send as JSON.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "libs/base/error.hpp"

namespace nodus::http {

// BadRequest when it is not JSON, no object, or names a field twice (a cause each, with the field's path):
// which of the two counts would be a guess, and another reader might guess otherwise.
Result<boost::json::object> parse_json_object(std::string_view body);

}  // namespace nodus::http
