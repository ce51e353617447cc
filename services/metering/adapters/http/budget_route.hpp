// /v1/budgets and /v1/budgets/{name}: the Budgets of the identity's project, forwarded by lifecycle, which
// knows who may change them.
#pragma once

#include <string>

#include "libs/http/server.hpp"
#include "services/metering/app/works.hpp"

namespace nodus::metering {

struct BudgetDeps {
  const Clock& clock;
  eventlog::EventLog& log;
  Works& works;
  std::string identity_secret;
};

http::Response answer_budgets(const BudgetDeps& deps,
                              const http::Request& request);  // any method, list or object

void budget_routes(http::Server& server, const BudgetDeps& deps);  // `deps` outlives the server

}  // namespace nodus::metering
