// What people may know of prices and credits, and where payments are told. But for the webhook, which carries
// a signature of its own, requests come from lifecycle with X-Nodus-Identity.
//   GET  /v1/prices                   the version in force, and those published ahead
//   GET  /v1/quote?cpu=&memory=&disk= what a start would cost, without starting
//   GET  /v1/organization/balance     what the organization has, now
//   GET  /v1/organization/credits     purchases, grants, refunds and adjustments, by time
//   POST /webhooks/stripe
#pragma once

#include <string>

#include "libs/http/identity.hpp"
#include "libs/http/server.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/app/works.hpp"

namespace nodus::metering {

struct MoneyDeps {
  const Clock& clock;
  pg::Pool& pool;
  eventlog::EventLog& log;
  Works& works;
  Durations durations;
  std::string identity_secret;
  std::string stripe_secret;  // of the webhook's endpoint; empty: it answers 503
};

http::Response answer_prices(const MoneyDeps& deps, const http::Request& request);
http::Response answer_quote(const MoneyDeps& deps, const http::Request& request);
http::Response answer_balance(const MoneyDeps& deps, const http::Request& request);
http::Response answer_credits(const MoneyDeps& deps, const http::Request& request);
http::Response answer_stripe(const MoneyDeps& deps, const http::Request& request);

// `deps` outlives the server.
void money_routes(http::Server& server, const MoneyDeps& deps);

}  // namespace nodus::metering
