// The way to the node that runs a Sandbox: requests are handed on, bytes are only passed through.
#pragma once

#include <string_view>

#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/app/process_keeper.hpp"

namespace nodus::lifecycle {

// A request to the node, below …/slots/<uid>/epochs/<epoch>/; `rest` may have a query. A node that does not
// have the slot (any more, or yet) is SandboxStarting to the client.
http::Upstream node_upstream(Api& api, const Sandbox& sandbox, int64_t epoch, std::string_view rest);

// For app/process_keeper.hpp. To be called by one thread.
RefuseUnlessKnown refuse_at_node(std::string node_secret);

// Answers with what the node answers, or SandboxStarting when it is not to be reached.
boost::asio::awaitable<void> hand_on(Api& api, http::Exchange& exchange, const Sandbox& sandbox,
                                     http::Upstream upstream);

// Answers a trigger that found the Sandbox not running: the refusal, or SandboxStarting.
boost::asio::awaitable<void> answer_not_yet(Api& api, http::Exchange& exchange, Sandbox sandbox);

}  // namespace nodus::lifecycle
