// The client's side of a WebSocket: blocking, over http or https (libcurl makes the connection). One thread
// reads; any thread may write meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/http/message.hpp"

namespace nodus::http {

struct WebSocketTarget {
  std::string url;  // http://, https://, ws:// or wss://, with path and query
  Headers headers;  // Authorization, say
  std::vector<std::string> protocols;
  Millis connect_time{3'000};
  Millis answer_time{30'000};  // to the opening request
  Millis silence{60'000};      // of a server that should ping: it is gone
  size_t message_bytes = 4u << 20;
};

class WebSocketClient {
 public:
  // Errors: Unavailable/ConnectionFailed, Unavailable/ConnectionLost, DeadlineExceeded/RequestTimedOut; when
  // the server answers anything but 101, the Error of that Status.
  static Result<std::unique_ptr<WebSocketClient>> open(const WebSocketTarget& target);
  ~WebSocketClient();  // closes the connection, without waiting for the server

  const std::string& protocol() const;  // that the server chose; empty: none
  const Headers& headers() const;       // of the server's 101
  int descriptor() const;  // to poll for reading; then read() with patience 0 until nothing comes

  // The next message; nothing when none came in time. Pings are answered in here, so it must be called at
  // least each half minute. Errors: Unavailable/Closed (the server said that it is done; see close_code()),
  // Unavailable/ConnectionLost.
  Result<std::optional<std::string>> read(Millis patience);
  uint16_t close_code() const;  // of the server's close: 1000 is a good end

  // Binary; waits until it is handed over, at most `silence` for each piece.
  Result<void> write(std::string_view message);
  void close(uint16_t code);  // says that nothing more is written

 private:
  struct State;
  explicit WebSocketClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nodus::http
