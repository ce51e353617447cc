// The server's side of a WebSocket, made from an Exchange by upgrade(). Everything runs on the exchange's
// strand: one coroutine reads, any may write, one runs keep_alive().
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libs/http/stream.hpp"
#include "libs/http/websocket_frame.hpp"

namespace nodus::http {

struct WebSocketOptions {
  std::vector<std::string> protocols;  // spoken, the best first; a client may offer none
  size_t message_bytes = 1024 * 1024;  // of one message of the client
  Headers headers;                     // more of them, of the 101
  Millis ping_time{15'000};
  Millis silence{60'000};     // of a peer that is read from and answers no ping: it is gone
  Millis write_time{60'000};  // for a frame of ours to be taken by the peer
  Millis close_time{3'000};   // for the peer's answer to our close
};

class WebSocket {
 public:
  WebSocket(Stream& stream, WebSocketOptions options, std::string protocol);
  WebSocket(const WebSocket&) = delete;

  const std::string& protocol() const { return protocol_; }  // empty: none was offered
  // The next message. Pings are answered and a close is replied to in here. Error: Unavailable/ClientGone,
  // for a close of either side too.
  boost::asio::awaitable<Result<std::string>> read();
  boost::asio::awaitable<Result<void>> write(std::string_view message);  // binary, flushed
  // Says that nothing more is written, and gives the peer close_time to say so too; a read then ends.
  boost::asio::awaitable<void> close(uint16_t code, std::string_view reason);
  boost::asio::awaitable<void> keep_alive();  // pings until the WebSocket is closed
  bool closed() const { return gone_ || close_sent_; }

 private:
  boost::asio::awaitable<bool> send(std::string frame);
  boost::asio::awaitable<void> answer_ping(std::string_view payload);
  void leave();  // ends whatever is under way

  Stream& stream_;
  const WebSocketOptions options_;
  const std::string protocol_;
  websocket::Decoder decoder_;
  Deadline write_deadline_;
  boost::asio::steady_timer turn_;  // never expires: cancelled when a writer has done
  boost::asio::steady_timer ping_;
  std::string pong_;  // to be sent by the writer that is under way
  bool writing_ = false, close_sent_ = false, gone_ = false;
};

}  // namespace nodus::http
