// /v1/budgets and /v1/budgets/{name}: the Budgets of the identity's project, forwarded by lifecycle, which
// knows who may change them. /v1/budget-changes?after=N&waitSeconds=S: what changed since, for those who
// watch:
// {"changes":[{"position","type","object"}],"last","floor","more"}, at once or when something changes.
#pragma once

#include <string>

#include "libs/http/server.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/app/works.hpp"

namespace nodus::metering {

struct BudgetDeps {
  const Clock& clock;
  pg::Pool& pool;
  eventlog::EventLog& log;
  Works& works;
  std::string identity_secret;
  http::Waiters& waiters;  // notified with the stream of each event of budget/… committed here
};

http::Response answer_budgets(const BudgetDeps& deps,
                              const http::Request& request);  // any method, list or object

boost::asio::awaitable<void> answer_budget_changes(const BudgetDeps& deps, http::Exchange& exchange);

void budget_routes(http::Server& server, const BudgetDeps& deps);  // `deps` outlives the server

}  // namespace nodus::metering
