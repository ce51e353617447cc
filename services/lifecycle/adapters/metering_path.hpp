// Requests that metering answers: handed on with the identity of the caller, answers streamed in constant
// memory.
#pragma once

#include "services/lifecycle/adapters/api.hpp"

namespace nodus::lifecycle {

// The handler of every such row. …/namespaces/{project}/X becomes /v1/X, and …/organizations/{org}/X becomes
// /v1/organization/X; the query and the body go along.
boost::asio::awaitable<void> forward_to_metering(Api& api, const http::Identity& caller,
                                                 http::Exchange& exchange);

// Metering at `target`, asked for the caller.
http::Upstream metering_at(Api& api, const http::Identity& caller, std::string target);
std::unexpected<Error> metering_away();  // 503: what is its own cannot be reached now

// How many Budgets the project has.
boost::asio::awaitable<Result<int64_t>> count_budgets(Api& api, const http::Identity& caller);

}  // namespace nodus::lifecycle
