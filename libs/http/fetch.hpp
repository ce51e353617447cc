// A request to another server from a coroutine: no worker waits for it. For what an Exchange cannot just hand
// on.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string_view>

#include "libs/http/server.hpp"

namespace nodus::http {

// Called with each part of a 2xx body as it arrives, and once with an empty part when its header has come;
// false ends the call, which is no error.
using OnPart = std::function<boost::asio::awaitable<bool>(std::string_view part)>;

// Sends `to` (its method, target, headers and body; its idle time is between two bytes of the answer) and
// reads the answer, up to `limit` bytes of it; with on_part a 2xx body goes there instead, however long.
// Errors: Unavailable/UpstreamUnreachable (nothing was sent), Unavailable/UpstreamLost (the answer broke off
// or was malformed), DeadlineExceeded/UpstreamTimedOut.
boost::asio::awaitable<Result<Response>> fetch(Upstream to, size_t limit, OnPart on_part = {});

}  // namespace nodus::http
