// Requests that metering answers: handed on with the identity of the caller, answers streamed in constant
// memory.
#pragma once

#include "services/lifecycle/adapters/api.hpp"

namespace nodus::lifecycle {

// The handler of every such row. …/namespaces/{project}/X becomes /v1/X, and …/organizations/{org}/X becomes
// /v1/organization/X; the query and the body go along.
boost::asio::awaitable<void> forward_to_metering(Api& api, const http::Identity& caller,
                                                 http::Exchange& exchange);

}  // namespace nodus::lifecycle
