// What an operator does, over HTTP, on metering's own address: the same as the commands of nodus-metering.
// Every request carries `Authorization: Bearer $NODUS_OPERATOR_TOKEN`; without that token in metering's
// environment the routes answer 503. See docs/credits.md.
//   GET  /operator/v1/prices                         every version that was published
//   POST /operator/v1/prices                         new versions: the price file, YAML, at most 1 MiB
//   GET  /operator/v1/organizations/{org}/credits    what was posted, by time: ?limit=&continue=
//   POST /operator/v1/organizations/{org}/credits    {"kind","id","amount","author","expires","priority"}
//   GET  /operator/v1/brake                          its latest changes
//   PUT  /operator/v1/brake                          {"engaged","reason","author"}
#pragma once

#include <string>

#include "services/metering/adapters/http/money_routes.hpp"

namespace nodus::metering {

struct OperatorDeps {
  const MoneyDeps& money;
  Micros price_lead;
  std::string token;  // empty: the API is off
};

http::Response answer_operator(const OperatorDeps& deps, const http::Request& request);  // /operator/v1/…

// `deps` outlives the server.
void operator_routes(http::Server& server, const OperatorDeps& deps);

}  // namespace nodus::metering
