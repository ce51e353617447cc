// What Kubernetes' clients ask before anything else: which groups, versions and kinds there are, and their
// fields. The same for everybody, so no key is asked for.
#pragma once

#include <boost/json.hpp>

#include <vector>

#include "services/lifecycle/adapters/dispatch.hpp"

namespace nodus::lifecycle {

boost::json::object api_groups();              // /apis
boost::json::object api_group();               // /apis/nodus.dev
boost::json::object api_resources(bool core);  // /apis/nodus.dev/v1, /api/v1
boost::json::object openapi_index();           // /openapi/v3
// /openapi/v3/apis/nodus.dev/v1 or /openapi/v3/api/v1: written from fields.hpp, resources.hpp and the route
// table.
boost::json::object openapi_document(bool core, const std::vector<PublicRoute>& table);

}  // namespace nodus::lifecycle
