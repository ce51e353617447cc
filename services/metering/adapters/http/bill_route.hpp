// GET /v1/bill?sandbox=NAME&limit=N&continue=TOKEN, forwarded by lifecycle with X-Nodus-Identity.
#pragma once

#include <string>

#include "libs/http/server.hpp"
#include "services/metering/adapters/postgres/bill.hpp"

namespace nodus::metering {

struct BillDeps {
  const Clock& clock;
  pg::Pool& pool;
  eventlog::EventLog& log;
  std::string identity_secret;
};

http::Response answer_bill(const BillDeps& deps, const http::Request& request);

}  // namespace nodus::metering
