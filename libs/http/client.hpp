// A blocking HTTP client over libcurl, for the CLI and for calls between our own programs. One thread a
// client; it keeps its connection. Redirects are not followed. Retries belong to the caller.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "libs/base/clock.hpp"
#include "libs/http/message.hpp"

namespace nodus::http {

struct ClientRequest {
  std::string method = "GET";
  std::string url;
  Headers headers;
  std::string body;
  std::function<size_t(char* into, size_t space)>
      read_body;  // instead of body: streamed, chunked; 0 at the end, SIZE_MAX to give up (BodyUnreadable)
  std::optional<int64_t> body_size;             // with read_body: sent as Content-Length
  std::function<void(const Headers&)> on_head;  // of a 2xx, before its body
  // Called with each part of a 2xx body as it arrives; false ends the call. Without it the body is collected.
  std::function<bool(std::string_view)> on_body;
  size_t response_limit = 16 * 1024 * 1024;  // of a collected body
  Millis connect_time{3'000};
  Millis total_time{30'000};  // 0: none
  Millis idle_time{0};        // no byte for so long ends the call; 0: none
  // Asked about once a second; true ends the call as Unavailable/Cancelled. For a long poll at the end of a
  // program.
  std::function<bool()> cancelled;
};

class Client {
 public:
  Client();
  ~Client();
  // Errors: Unavailable/ConnectionFailed (nothing was sent), Unavailable/ConnectionLost (the answer broke
  // off), DeadlineExceeded/RequestTimedOut. Any HTTP status is a Response, not an error.
  Result<Response> call(const ClientRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads a Status body back into an Error.
Error parse_status(const Response& response);

}  // namespace nodus::http
