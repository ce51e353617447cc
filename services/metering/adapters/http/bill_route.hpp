// GET /v1/bill (of the identity's project) and /v1/organization/bill, forwarded by lifecycle with
// X-Nodus-Identity. See README.md.
#pragma once

#include <string>

#include "libs/http/server.hpp"
#include "services/metering/adapters/http/bill_query.hpp"

namespace nodus::metering {

struct BillDeps {
  const Clock& clock;
  pg::Pool& pool;
  std::string identity_secret;
  std::string issuer = "NODUS";  // of invoices
};

http::Response answer_bill(const BillDeps& deps, const http::Request& request, BillScope scope);

void bill_routes(http::Server& server, const BillDeps& deps);  // `deps` outlives the server

}  // namespace nodus::metering
