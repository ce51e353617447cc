// One request and its answer on a connection.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "libs/http/head.hpp"
#include "libs/http/server.hpp"
#include "libs/http/stream.hpp"
#include "libs/http/websocket.hpp"
#include "libs/http/workers.hpp"

namespace nodus::http {

class ServerExchange final : public Exchange {
 public:
  ServerExchange(Stream& stream, const ParsedHead& head, Request request, const Limits& limits,
                 Workers& workers);

  const Request& request() const override { return request_; }
  boost::asio::awaitable<Result<std::string>> read_body(size_t limit) override;
  boost::asio::awaitable<Result<std::string>> read_some() override;
  boost::asio::awaitable<void> respond(Response response) override;
  boost::asio::awaitable<Result<void>> begin(int status, Headers headers) override;
  boost::asio::awaitable<Result<void>> write(std::string_view bytes) override;
  boost::asio::awaitable<Result<void>> finish() override;
  boost::asio::awaitable<Result<void>> proxy(Upstream upstream) override;
  boost::asio::awaitable<Result<std::unique_ptr<WebSocket>>> upgrade(WebSocketOptions options) override;
  bool peer_left() override;
  boost::asio::awaitable<Result<void>> run_blocking(std::function<void()> work) override;
  void set_lane(std::string lane) override { lane_ = std::move(lane); }
  std::function<void()> cutter() override { return cut_; }

  // For the connection.
  Request& mutable_request() { return request_; }
  void limit_body(size_t bytes) { body_limit_ = bytes; }
  void close_after() { close_ = true; }
  void set_cutter(std::function<void()> cut) { cut_ = std::move(cut); }
  int status() const override { return status_; }
  bool answered() const { return finished_; }  // whole
  bool begun() const { return status_ != 0; }
  bool broken() const { return broken_; }   // cut off: nothing more can be sent
  boost::asio::awaitable<bool> reusable();  // takes what is left of a small body

 private:
  friend class ProxyRun;
  boost::asio::awaitable<void> continue_if_expected();
  void set_status(int status) {
    status_ = status;
    answering(status);
  }
  bool close_needed() const;
  std::unexpected<Error> body_error(BodyFault fault);
  Result<void> sent(Io io);  // what came of a write
  boost::asio::awaitable<Io> write_paced(std::string_view bytes);

  Stream& stream_;
  Request request_;
  const Limits& limits_;
  Workers& workers_;
  Body body_;
  std::optional<size_t> body_limit_;
  size_t body_taken_ = 0;
  bool http_1_0_;
  bool head_;                 // HEAD: everything but the body is sent
  bool awaits_continue_;      // the client waits for 100 before it sends the body
  bool close_;                // after this answer
  bool body_failed_ = false;  // what is left of the body is not to be read as a request
  Pace reading_, writing_;
  std::optional<uint64_t> length_left_;  // of an answer whose length was announced
  std::string lane_;                     // in the worker pool
  std::function<void()> cut_ = [] {};
  int status_ = 0;
  bool chunked_ = false;
  bool finished_ = false;
  bool broken_ = false;
};

}  // namespace nodus::http
