#include "libs/http/exchange.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <charconv>
#include <utility>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"
#include "libs/http/answer.hpp"

namespace nodus::http {

namespace asio = boost::asio;

namespace {
// A body that nobody wanted is read to keep the connection, if it is no longer than this.
constexpr uint64_t kDrainBytes = 64 * 1024;
constexpr size_t kJoinBytes = 32 * 1024;  // head and body up to this go out in one write

std::unexpected<Error> client_left() {
  return fail(Code::kUnavailable, "ClientGone", "The client closed the connection.");
}
}  // namespace

ServerExchange::ServerExchange(Stream& stream, const ParsedHead& head, Request request, const Limits& limits,
                               Workers& workers)
    : stream_(stream),
      request_(std::move(request)),
      limits_(limits),
      workers_(workers),
      body_(stream, head.framing, head.length),
      http_1_0_(head.http_1_0),
      head_(head.method == "HEAD"),
      awaits_continue_(head.expect_continue),
      close_(!head.keep_alive),
      reading_(limits.pace_grace, limits.pace_bytes_per_s),
      writing_(limits.pace_grace, limits.pace_bytes_per_s) {}

asio::awaitable<void> ServerExchange::continue_if_expected() {
  if (!std::exchange(awaits_continue_, false)) co_return;
  // A client that already sends its body does not need it, and may not expect it any more.
  if (!stream_.buffered().empty()) co_return;
  co_await stream_.write("HTTP/1.1 100 Continue\r\n\r\n", limits_.body_idle_time);
}

std::unexpected<Error> ServerExchange::body_error(BodyFault fault) {
  body_failed_ = true;
  close_ = true;
  switch (fault) {
    case BodyFault::kTimedOut:
      return fail(Code::kBadRequest, "RequestTimeout",
                  "The request body did not arrive in time; send it again.");
    case BodyFault::kMalformed:
      return fail(Code::kBadRequest, "MalformedRequest", "The chunked request body is malformed.");
    case BodyFault::kClosed:
      break;
  }
  broken_ = true;
  return client_left();
}

asio::awaitable<Result<std::string>> ServerExchange::read_some() {
  if (broken_) co_return client_left();
  const auto too_large = [&] {
    body_failed_ = close_ = true;
    return fail(
        Code::kTooLarge, "RequestTooLarge",
        fmt::format("The request body is larger than {} bytes, the limit of this request.", *body_limit_));
  };
  if (body_limit_ && body_.known_left().value_or(0) + body_taken_ > *body_limit_) co_return too_large();
  if (!body_.done()) co_await continue_if_expected();
  reading_.begin();
  auto part = co_await body_.next(limits_.body_idle_time);
  stream_.deadline().clear();
  if (!part) co_return body_error(part.error());
  reading_.end(part->size());
  if (!body_.done() && reading_.too_slow()) co_return body_error(BodyFault::kTimedOut);
  body_taken_ += part->size();
  if (body_limit_ && body_taken_ > *body_limit_) co_return too_large();
  co_return std::move(*part);
}

asio::awaitable<Result<std::string>> ServerExchange::read_body(size_t limit) {
  body_limit_ = body_limit_ ? std::min(*body_limit_, limit) : limit;
  std::string body;
  while (true) {
    Result<std::string> part = co_await read_some();
    if (!part) co_return part;
    if (part->empty()) co_return body;
    body += *part;
  }
}

bool ServerExchange::close_needed() const {
  if (close_ || body_failed_) return true;
  if (body_.done()) return false;
  // After a final answer instead of 100 the client may send the body or not: only a new connection is sure.
  return awaits_continue_ || body_.known_left().value_or(UINT64_MAX) > kDrainBytes;
}

Result<void> ServerExchange::sent(Io io) {
  stream_.deadline().clear();
  if (io == Io::kOk) return {};
  broken_ = true;
  return client_left();
}

asio::awaitable<void> ServerExchange::respond(Response response) {
  CHECK(status_ == 0, "{} {} was answered twice", request_.method, request_.target);
  set_status(response.status);
  if (broken_) co_return;
  close_ = close_needed();
  AnswerHead head{.status = response.status, .length = response.body.size(), .close = close_, .upgrade = ""};
  std::string text = write_answer_head(head, response.headers);
  const bool bodyless = head_ || has_no_body(response.status);
  const bool joined = !bodyless && response.body.size() <= kJoinBytes;
  if (joined) text += response.body;
  Io io = co_await stream_.write(text, limits_.body_idle_time);
  if (io == Io::kOk && !bodyless && !joined)
    io = co_await stream_.write(response.body, limits_.body_idle_time);
  finished_ = sent(io).has_value();
}

asio::awaitable<Result<void>> ServerExchange::begin(int status, Headers headers) {
  CHECK(status_ == 0, "{} {} was answered twice", request_.method, request_.target);
  set_status(status);
  if (broken_) co_return client_left();
  if (const auto length = headers.get("Content-Length")) {
    uint64_t bytes = 0;
    const auto read = std::from_chars(length->data(), length->data() + length->size(), bytes);
    CHECK(read.ec == std::errc() && read.ptr == length->data() + length->size(), "Content-Length: {}",
          *length);
    length_left_ = bytes;
  }
  chunked_ = !http_1_0_ && !has_no_body(status) && !length_left_;
  close_ = close_needed();
  const AnswerHead head{
      .status = status, .length = length_left_, .chunked = chunked_, .close = close_, .upgrade = ""};
  const std::string text = write_answer_head(head, headers);
  co_return sent(co_await stream_.write(text, limits_.body_idle_time));
}

asio::awaitable<Io> ServerExchange::write_paced(std::string_view bytes) {
  writing_.begin();
  const Io io = co_await stream_.write(bytes, limits_.body_idle_time);
  writing_.end(bytes.size());
  co_return io == Io::kOk&& writing_.too_slow() ? Io::kTimedOut : io;
}

asio::awaitable<Result<void>> ServerExchange::write(std::string_view bytes) {
  CHECK(status_ != 0 && !finished_, "write outside begin and finish");
  if (broken_) co_return client_left();
  if (bytes.empty() || head_ || has_no_body(status_)) co_return Result<void>{};
  if (length_left_) {
    CHECK(bytes.size() <= *length_left_, "{} {}: more bytes than announced", request_.method,
          request_.target);
    *length_left_ -= bytes.size();
  }
  if (!chunked_) co_return sent(co_await write_paced(bytes));
  if (bytes.size() <= kJoinBytes) {
    std::string text = chunk_header(bytes.size());
    text.append(bytes).append("\r\n");
    co_return sent(co_await write_paced(text));
  }
  const std::string header = chunk_header(bytes.size());
  Io io = co_await stream_.write(header, limits_.body_idle_time);
  if (io == Io::kOk) io = co_await write_paced(bytes);
  if (io == Io::kOk) io = co_await stream_.write("\r\n", limits_.body_idle_time);
  co_return sent(io);
}

asio::awaitable<Result<void>> ServerExchange::finish() {
  CHECK(status_ != 0 && !finished_, "finish outside begin");
  if (length_left_.value_or(0) > 0 && !head_) broken_ = true;
  if (broken_) co_return client_left();
  finished_ = true;
  if (!chunked_ || head_) co_return Result<void>{};
  co_return sent(co_await stream_.write("0\r\n\r\n", limits_.body_idle_time));
}

bool ServerExchange::peer_left() {
  char byte = 0;
  const ssize_t got = recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return broken_ || got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

asio::awaitable<Result<void>> ServerExchange::run_blocking(std::function<void()> work) {
  if (co_await workers_.run(std::move(work), lane_)) co_return Result<void>{};
  Error error{
      Code::kUnavailable, "Overloaded", "The server has more work than it can queue; try again.", {}, {}, ""};
  error.retry_after_s = 1 + static_cast<int>(random_below(4));
  co_return std::unexpected(std::move(error));
}

asio::awaitable<bool> ServerExchange::reusable() {
  if (broken_ || !finished_ || close_) co_return false;
  while (!body_.done()) {
    const auto part = co_await body_.next(limits_.body_idle_time);
    if (!part) co_return false;
  }
  co_return true;
}

}  // namespace nodus::http
