// GET /v1/organization/export?month=2026-11&format=csv|focus-1.2, forwarded by lifecycle with
// X-Nodus-Identity. Streamed.
#pragma once

#include "services/metering/adapters/http/bill_route.hpp"

namespace nodus::metering {

void export_routes(http::Server& server, const BillDeps& deps);  // `deps` outlives the server

}  // namespace nodus::metering
