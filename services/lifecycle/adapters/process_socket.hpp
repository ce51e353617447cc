// A command's streams over a WebSocket, in Kubernetes' remote-command subprotocol (v5 and v4). While the
// command runs the connection is piped to its node, which speaks it; of one that has ended, kept output and
// the final Status come from here.
#pragma once

#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/exec_request.hpp"

namespace nodus::lifecycle {

using Admit = Result<Admission> (*)(Api& api, const http::Identity& caller, const http::Request& request,
                                    ExecRequest& exec);

// Admits the command, starts it on its node, then upgrades. Everything that can go wrong before the upgrade
// is a plain Status, and until then nothing but an accepted command has begun.
boost::asio::awaitable<void> exec_socket(Api& api, const http::Identity& caller, http::Exchange& exchange,
                                         Admit admit);
struct SocketStreams {
  uint64_t offset = 0;  // of the output; what is before it was heard already
  bool in = false;
  bool out = true;
  bool err = true;
};
// Joins a Process. The upgrade was checked.
boost::asio::awaitable<void> attach_socket(Api& api, http::Exchange& exchange, Process process,
                                           SocketStreams streams);
// The client wants another protocol on the connection. Not when it only offers HTTP/2, as some clients do
// with every request.
bool wants_socket(const http::Request& request);
// What is wrong with a request to upgrade; checked before a command is admitted for it.
std::optional<Error> upgrade_fault(const http::Request& request);

}  // namespace nodus::lifecycle
