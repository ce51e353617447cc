// GET /v1/organization/invoices?limit=&continue= and /v1/organization/invoices/{number}?format=json|csv,
// forwarded by lifecycle with X-Nodus-Identity. See README.md.
#pragma once

#include "services/metering/adapters/http/bill_route.hpp"

namespace nodus::metering {

http::Response answer_invoices(const BillDeps& deps, const http::Request& request);
http::Response answer_invoice(const BillDeps& deps, const http::Request& request);

void invoice_routes(http::Server& server, const BillDeps& deps);  // `deps` outlives the server

}  // namespace nodus::metering
