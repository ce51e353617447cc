// Exchange::proxy: one request handed on to another server, streamed both ways in constant memory. Two
// coroutines share a strand: one moves the request and then watches the client, the other moves the answer.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "libs/http/answer.hpp"
#include "libs/http/exchange.hpp"

namespace nodus::http {

namespace asio = boost::asio;

namespace {
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kAnswerHeadBytes = 64 * 1024;
constexpr size_t kPipelinedBytes = 64 * 1024;  // kept while the answer streams
constexpr Millis kNoDeadline{0};               // the proxy's own deadline covers both sockets

std::unexpected<Error> upstream_lost(std::string what) {
  return fail(Code::kUnavailable, "UpstreamLost", std::move(what));
}
}  // namespace

class ProxyRun {
 public:
  ProxyRun(ServerExchange& exchange, Upstream to, Tcp::socket socket)
      : exchange_(exchange),
        to_(std::move(to)),
        client_(exchange.stream_),
        upstream_(std::move(socket)),
        deadline_(upstream_.socket().get_executor(), [this] { stop_both(); }) {}

  asio::awaitable<Result<void>> run();

 private:
  asio::awaitable<Result<void>> connect();
  std::string request_head() const;
  asio::awaitable<void> move_request();
  asio::awaitable<bool> move_client_body();
  asio::awaitable<void> watch_client();
  asio::awaitable<void> move_answer();
  asio::awaitable<std::optional<ParsedAnswer>> read_answer_head();
  asio::awaitable<bool> send_answer_head(const ParsedAnswer& answer);
  asio::awaitable<void> move_answer_body(const ParsedAnswer& answer);
  asio::awaitable<void> pipe_answer();
  asio::awaitable<Result<void>> outcome();

  bool wants_upgrade() const { return to_.headers.get("Upgrade").has_value(); }
  bool chunks_upstream() const { return !to_.body && !exchange_.body_.known_left(); }
  void touch() { deadline_.set(to_.idle_time); }
  void stop_both() {
    expired_ = true;
    client_.cancel();
    upstream_.close();
  }
  void client_left() {
    client_gone_ = true;
    client_.close();
    upstream_.close();
  }

  ServerExchange& exchange_;
  const Upstream to_;
  Stream& client_;
  Stream upstream_;
  Deadline deadline_;
  bool request_done_ = false;  // all of it is with the upstream
  bool stop_request_ = false;  // the answer has ended
  bool waits_for_client_ = false;
  bool expired_ = false;
  bool client_gone_ = false;
  bool too_large_ = false;
  bool malformed_ = false;
  bool piping_ = false;        // after 101
  bool answer_begun_ = false;  // bytes went to the client
  bool answer_whole_ = false;
  std::optional<Error> fault_;  // of the upstream, before the answer began
};

asio::awaitable<Result<void>> ProxyRun::connect() {
  deadline_.set(to_.connect_time);
  const auto refused = [&](std::string why) {
    return fail(Code::kUnavailable, "UpstreamUnreachable",
                fmt::format("{}:{} cannot be reached: {}.", to_.host, to_.port, why));
  };
  boost::system::error_code not_numeric;
  const auto address = asio::ip::make_address(to_.host, not_numeric);
  std::vector<Tcp::endpoint> endpoints;
  if (!not_numeric) {
    endpoints.emplace_back(address, static_cast<uint16_t>(to_.port));
  } else {
    Tcp::resolver resolver(upstream_.socket().get_executor());
    const auto [fault, found] = co_await resolver.async_resolve(to_.host, fmt::to_string(to_.port), kTuple);
    if (fault) co_return refused(fault.message());
    for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  }
  if (expired_) co_return refused("no answer in time");
  const auto [fault, chosen] = co_await asio::async_connect(upstream_.socket(), endpoints, kTuple);
  if (expired_) co_return refused("no answer in time");
  if (fault) co_return refused(fault.message());
  boost::system::error_code ignored;
  upstream_.socket().set_option(Tcp::no_delay(true), ignored);
  co_return Result<void>{};
}

std::string ProxyRun::request_head() const {
  const std::string& method = to_.method.empty() ? exchange_.request_.method : to_.method;
  const std::string host = to_.host.find(':') == std::string::npos ? to_.host : "[" + to_.host + "]";
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\n", method, to_.target, host, to_.port);
  for (const auto& [name, value] : to_.headers.all())
    if (!is_hop_by_hop(name)) text += fmt::format("{}: {}\r\n", name, value);
  if (const auto upgrade = to_.headers.get("Upgrade")) {
    text += fmt::format("Connection: Upgrade\r\nUpgrade: {}\r\n", *upgrade);
  } else {
    text += "Connection: close\r\n";
  }
  if (chunks_upstream()) {
    text += "Transfer-Encoding: chunked\r\n";
  } else if (const uint64_t size = to_.body ? to_.body->size() : exchange_.body_.known_left().value_or(0);
             size > 0 || method == "POST" || method == "PUT" || method == "PATCH") {
    text += fmt::format("Content-Length: {}\r\n", size);
  }
  return text + "\r\n";
}

asio::awaitable<bool> ProxyRun::move_client_body() {
  const bool chunked = chunks_upstream();
  uint64_t moved = 0;
  if (!exchange_.body_.done()) co_await exchange_.continue_if_expected();
  while (!exchange_.body_.done()) {
    waits_for_client_ = true;
    exchange_.reading_.begin();
    auto part = co_await exchange_.body_.next(kNoDeadline);
    if (stop_request_ || expired_) co_return false;
    waits_for_client_ = false;
    if (!part) {
      malformed_ = part.error() == BodyFault::kMalformed;
      if (malformed_) {
        upstream_.abort();
      } else {
        client_left();
      }
      co_return false;
    }
    touch();
    exchange_.reading_.end(part->size());
    if (exchange_.reading_.too_slow() && !exchange_.body_.done()) {
      waits_for_client_ = true;
      stop_both();
      co_return false;
    }
    moved += part->size();
    if (moved > to_.body_limit) {
      too_large_ = true;
      upstream_.abort();  // with a reset: half a body must not pass for a whole one
      co_return false;
    }
    if (part->empty()) break;
    std::string text = chunked ? chunk_header(part->size()) + *part + "\r\n" : std::move(*part);
    // A refused write may mean that an early answer is waiting: the answer's side finds out.
    if (co_await upstream_.write(text, kNoDeadline) != Io::kOk) co_return false;
    touch();
  }
  co_return !chunked || co_await upstream_.write("0\r\n\r\n", kNoDeadline) == Io::kOk;
}

asio::awaitable<void> ProxyRun::move_request() {
  if (to_.body) {
    request_done_ = co_await upstream_.write(*to_.body, kNoDeadline) == Io::kOk;
  } else {
    request_done_ = co_await move_client_body();
  }
  touch();
  co_await watch_client();
}

// Notices that the client leaves; after 101 it also moves the client's bytes.
asio::awaitable<void> ProxyRun::watch_client() {
  while (!stop_request_ && !client_gone_ && !too_large_ && !malformed_) {
    if (!piping_ && client_.buffered().size() >= kPipelinedBytes) co_return;
    const Io io = co_await client_.fill();
    if (stop_request_ || expired_) co_return;
    if (io != Io::kOk) {
      if (!piping_) co_return client_left();
      boost::system::error_code ignored;
      upstream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
      co_return;
    }
    if (!piping_) continue;
    const std::string bytes(client_.buffered());
    client_.consume(bytes.size());
    if (co_await upstream_.write(bytes, kNoDeadline) != Io::kOk) co_return;
    touch();
  }
}

asio::awaitable<std::optional<ParsedAnswer>> ProxyRun::read_answer_head() {
  while (true) {
    size_t scanned = 0;
    HeadEnd end = find_head_end(upstream_.buffered(), scanned);
    while (end == HeadEnd::kNotYet && upstream_.buffered().size() <= kAnswerHeadBytes) {
      if (co_await upstream_.fill() != Io::kOk) {
        fault_ = upstream_lost("The other server closed the connection before it answered.").error();
        co_return std::nullopt;
      }
      touch();
      end = find_head_end(upstream_.buffered(), scanned);
    }
    Result<ParsedAnswer> answer = upstream_lost("The other server's answer is malformed.");
    if (end == HeadEnd::kFound) answer = check_answer_block(upstream_.buffered().substr(0, scanned));
    if (!answer || (answer->status == 101 && !wants_upgrade())) {
      fault_ = upstream_lost("The other server's answer is malformed.").error();
      co_return std::nullopt;
    }
    upstream_.consume(scanned);
    if (answer->status >= 200 || answer->status == 101) co_return std::move(*answer);
  }
}

asio::awaitable<bool> ProxyRun::send_answer_head(const ParsedAnswer& answer) {
  const bool bodyless = exchange_.head_ || has_no_body(answer.status);
  if (!bodyless && answer.framing == Framing::kNone && answer.status != 101) {
    // Without framing the end of the body and the death of the server look the same.
    fault_ = upstream_lost("The other server's answer has no length.").error();
    co_return false;
  }
  exchange_.chunked_ =
      answer.framing == Framing::kChunked && !exchange_.http_1_0_ && !has_no_body(answer.status);
  exchange_.close_ = exchange_.close_needed() || answer.status == 101;
  AnswerHead head{.status = answer.status,
                  .length = {},
                  .chunked = exchange_.chunked_,
                  .close = exchange_.close_,
                  .upgrade = answer.status == 101 ? answer.headers.get("Upgrade").value_or("") : ""};
  if (answer.framing == Framing::kLength) head.length = answer.length;
  answer_begun_ = true;
  exchange_.set_status(answer.status);
  const std::string text = write_answer_head(head, answer.headers);
  const bool sent = co_await client_.write(text, kNoDeadline) == Io::kOk;
  touch();
  co_return sent;
}

asio::awaitable<void> ProxyRun::move_answer_body(const ParsedAnswer& answer) {
  Body body(upstream_, answer.framing, answer.length);
  while (!body.done()) {
    auto part = co_await body.next(kNoDeadline);
    if (!part) co_return;
    touch();
    if (part->empty()) break;
    const std::string text =
        exchange_.chunked_ ? chunk_header(part->size()) + *part + "\r\n" : std::move(*part);
    exchange_.writing_.begin();
    if (co_await client_.write(text, kNoDeadline) != Io::kOk) co_return;
    exchange_.writing_.end(text.size());
    if (exchange_.writing_.too_slow()) co_return;
    touch();
  }
  if (exchange_.chunked_ && co_await client_.write("0\r\n\r\n", kNoDeadline) != Io::kOk) co_return;
  answer_whole_ = true;
}

asio::awaitable<void> ProxyRun::pipe_answer() {
  // What the client sent early waits in its buffer: the watcher is blocked in a read.
  const std::string early(client_.buffered());
  client_.consume(early.size());
  piping_ = true;
  if (co_await upstream_.write(early, kNoDeadline) != Io::kOk) co_return;
  while (true) {
    const std::string bytes(upstream_.buffered());
    upstream_.consume(bytes.size());
    if (co_await client_.write(bytes, kNoDeadline) != Io::kOk) co_return;
    if (co_await upstream_.fill() != Io::kOk) break;
    touch();
  }
  answer_whole_ = !expired_ && !client_gone_;
}

asio::awaitable<void> ProxyRun::move_answer() {
  if (const auto answer = co_await read_answer_head()) {
    // It may answer before it has the whole request, and may still want the rest. The client's connection is
    // of no use afterwards: where that rest ends is not known.
    if (!request_done_) exchange_.close_ = true;
    auto instead = to_.intercept ? to_.intercept(answer->status, answer->headers) : std::nullopt;
    if (instead) {
      co_await exchange_.respond(std::move(*instead));
      answer_begun_ = true;
      answer_whole_ = exchange_.finished_;
    } else if (co_await send_answer_head(*answer)) {
      if (answer->status == 101) {
        co_await pipe_answer();
      } else if (exchange_.head_ || has_no_body(answer->status)) {
        answer_whole_ = true;
      } else {
        co_await move_answer_body(*answer);
      }
    }
  }
  stop_request_ = true;
  client_.cancel();
  upstream_.cancel();
}

asio::awaitable<Result<void>> ProxyRun::outcome() {
  deadline_.clear();
  upstream_.close();
  if (!exchange_.body_.done()) exchange_.body_failed_ = true;
  if (answer_begun_) {
    exchange_.finished_ = answer_whole_;
    exchange_.broken_ = !answer_whole_;
    co_return Result<void>{};
  }
  if (client_gone_) {
    exchange_.broken_ = true;
    co_return Result<void>{};
  }
  std::optional<Error> answer;
  if (too_large_)
    answer = fail(Code::kTooLarge, "FileTooLarge",
                  fmt::format("The request body is larger than {} bytes, the most that is taken here.",
                              to_.body_limit))
                 .error();
  if (malformed_) answer = exchange_.body_error(BodyFault::kMalformed).error();
  if (expired_ && waits_for_client_) answer = exchange_.body_error(BodyFault::kTimedOut).error();
  if (answer) {
    co_await exchange_.respond(http::status(*answer));
    co_return Result<void>{};
  }
  if (expired_)
    co_return fail(Code::kDeadlineExceeded, "UpstreamTimedOut", "The other server did not answer in time.");
  co_return std::unexpected(fault_.value_or(upstream_lost("The other server did not answer.").error()));
}

asio::awaitable<Result<void>> ProxyRun::run() {
  using asio::experimental::awaitable_operators::operator&&;
  if (!to_.body && exchange_.body_.known_left().value_or(0) > to_.body_limit) {
    too_large_ = true;
    co_return co_await outcome();
  }
  if (auto connected = co_await connect(); !connected) {
    upstream_.close();
    co_return connected;
  }
  touch();
  const std::string head = request_head();
  if (co_await upstream_.write(head, kNoDeadline) != Io::kOk) {
    fault_ = upstream_lost("The other server closed the connection.").error();
    co_return co_await outcome();
  }
  co_await (move_request() && move_answer());
  co_return co_await outcome();
}

asio::awaitable<Result<void>> ServerExchange::proxy(Upstream upstream) {
  const bool right = upstream.target.starts_with('/') &&
                     std::ranges::all_of(upstream.target, [](char c) { return c > 0x20 && c < 0x7f; });
  if (!right)
    co_return fail(Code::kInternal, "BadUpstreamTarget", "The target of a proxied request is malformed.");
  if (broken_) co_return Result<void>{};
  stream_.deadline().clear();
  Tcp::socket socket(co_await asio::this_coro::executor);
  ProxyRun run(*this, std::move(upstream), std::move(socket));
  co_return co_await run.run();
}

}  // namespace nodus::http
