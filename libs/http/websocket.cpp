#include "libs/http/websocket.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "libs/http/answer.hpp"
#include "libs/http/exchange.hpp"

namespace nodus::http {

namespace asio = boost::asio;
using websocket::Opcode;

namespace {
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr Millis kNoDeadline{0};  // write_deadline_ covers a whole frame

std::unexpected<Error> gone() {
  return fail(Code::kUnavailable, "ClientGone", "The WebSocket is closed.");
}
}  // namespace

WebSocket::WebSocket(Stream& stream, WebSocketOptions options, std::string protocol)
    : stream_(stream),
      options_(std::move(options)),
      protocol_(std::move(protocol)),
      decoder_(true, options_.message_bytes),
      write_deadline_(stream.socket().get_executor(), [this] { leave(); }),
      turn_(stream.socket().get_executor(), asio::steady_timer::time_point::max()),
      ping_(stream.socket().get_executor()) {}

void WebSocket::leave() {
  gone_ = true;
  stream_.cancel();
  turn_.cancel();
  ping_.cancel();
}

asio::awaitable<bool> WebSocket::send(std::string frame) {
  while (writing_ && !gone_) co_await turn_.async_wait(kTuple);
  if (gone_) co_return false;
  writing_ = true;
  while (!frame.empty() && !gone_) {
    write_deadline_.set(options_.write_time);
    if (co_await stream_.write(frame, kNoDeadline) != Io::kOk) leave();
    frame = std::exchange(pong_, {});
  }
  write_deadline_.clear();
  writing_ = false;
  turn_.cancel();
  co_return !gone_;
}

// Never waits for a writer: a peer that writes and does not read would wait for us as we wait for it.
asio::awaitable<void> WebSocket::answer_ping(std::string_view payload) {
  if (close_sent_) co_return;
  std::string frame = websocket::encode_frame(Opcode::kPong, payload);
  if (writing_) {
    pong_ = std::move(frame);
  } else {
    co_await send(std::move(frame));
  }
}

asio::awaitable<Result<std::string>> WebSocket::read() {
  while (!gone_) {
    std::string_view bytes = stream_.buffered();
    const size_t before = bytes.size();
    auto event = decoder_.next(bytes);
    stream_.consume(before - bytes.size());
    if (event && event->opcode == Opcode::kPing) {
      co_await answer_ping(event->payload);
    } else if (event && event->opcode == Opcode::kClose) {
      co_await close(event->code == websocket::kNoStatus ? websocket::kNormal : event->code, "");
      leave();
    } else if (event && event->opcode != Opcode::kPong) {
      if (!close_sent_) co_return std::move(event->payload);
    } else if (decoder_.fault()) {
      co_await close(decoder_.fault(), "");
      leave();
    } else if (!event) {
      stream_.deadline().set(close_sent_ ? options_.close_time : options_.silence);
      const Io io = co_await stream_.fill();
      stream_.deadline().clear();
      if (io != Io::kOk) leave();
    }
  }
  co_return gone();
}

asio::awaitable<Result<void>> WebSocket::write(std::string_view message) {
  if (closed() || !co_await send(websocket::encode_frame(Opcode::kBinary, message))) co_return gone();
  co_return Result<void>{};
}

asio::awaitable<void> WebSocket::close(uint16_t code, std::string_view reason) {
  if (closed()) co_return;
  close_sent_ = true;
  ping_.cancel();
  co_await send(websocket::encode_close(code, reason));
  stream_.deadline().set(options_.close_time);  // for a read that is under way
}

asio::awaitable<void> WebSocket::keep_alive() {
  while (!closed()) {
    ping_.expires_after(options_.ping_time);
    co_await ping_.async_wait(kTuple);
    if (!closed()) co_await send(websocket::encode_frame(Opcode::kPing, ""));
  }
}

asio::awaitable<Result<std::unique_ptr<WebSocket>>> ServerExchange::upgrade(WebSocketOptions options) {
  bool wrong_version = false;
  auto handshake = websocket::check_handshake(request_, options.protocols, wrong_version);
  if (handshake && (http_1_0_ || !body_.done()))
    handshake = fail(Code::kBadRequest, "BadRequest", "A WebSocket is opened with HTTP/1.1 and no body.");
  if (!handshake) {
    Response refused = http::status(handshake.error());
    if (wrong_version) refused.status = 426;
    refused.headers.set("Sec-WebSocket-Version", "13");
    co_await respond(std::move(refused));
    co_return std::unexpected(handshake.error());
  }
  set_status(101);
  close_ = true;
  finished_ = true;  // as an HTTP answer
  Headers headers = options.headers;
  headers.set("Sec-WebSocket-Accept", handshake->accept);
  if (!handshake->protocol.empty()) headers.set("Sec-WebSocket-Protocol", handshake->protocol);
  const AnswerHead head{.status = 101, .length = {}, .upgrade = "websocket"};
  const std::string text = write_answer_head(head, headers);
  if (auto done = sent(co_await stream_.write(text, limits_.body_idle_time)); !done)
    co_return std::unexpected(done.error());
  co_return std::make_unique<WebSocket>(stream_, std::move(options), std::move(handshake->protocol));
}

}  // namespace nodus::http
