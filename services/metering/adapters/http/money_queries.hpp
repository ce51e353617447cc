// What the money routes have in common: who asks, and a query of known names.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <string>

#include "services/metering/adapters/http/money_routes.hpp"

namespace nodus::metering {

// Errors: Unauthenticated/IdentityRefused.
Result<http::Identity> who_asks(const MoneyDeps& deps, const http::Request& request);

// Parameters by name, each at most once. Errors: BadRequest/BadRequest with a cause for each fault.
Result<std::map<std::string, std::string>> query_of(const http::Request& request,
                                                    const std::set<std::string>& known);

// A page of what was posted to an organization.
http::Response answer_credits_of(const MoneyDeps& deps, const OrgId& org, const http::Request& request);

boost::json::object price_json(const PriceVersion& price, const char* state);

// The organization's account, as of its last event.
Result<account::State> account_of(const MoneyDeps& deps, const OrgId& org);

}  // namespace nodus::metering
