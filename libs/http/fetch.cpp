#include "libs/http/fetch.hpp"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "libs/http/answer.hpp"
#include "libs/http/head.hpp"
#include "libs/http/stream.hpp"

namespace nodus::http {

namespace asio = boost::asio;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kAnswerHeadBytes = 64 * 1024;

std::unexpected<Error> lost(std::string what) {
  return fail(Code::kUnavailable, "UpstreamLost", std::move(what));
}

std::unexpected<Error> broken(Io io) {
  if (io == Io::kTimedOut)
    return fail(Code::kDeadlineExceeded, "UpstreamTimedOut", "The other server did not answer in time.");
  return lost("The other server closed the connection.");
}

class Fetch {
 public:
  Fetch(Upstream to, Tcp::socket socket) : to_(std::move(to)), stream_(std::move(socket)) {}
  asio::awaitable<Result<Response>> run(size_t limit, OnPart on_part);

 private:
  asio::awaitable<Result<void>> connect();
  std::string head() const;
  asio::awaitable<Result<ParsedAnswer>> read_head();
  asio::awaitable<Result<Response>> read_body(ParsedAnswer answer, size_t limit, OnPart on_part);

  const Upstream to_;
  Stream stream_;
};

asio::awaitable<Result<void>> Fetch::connect() {
  const auto refused = [&](std::string_view why) {
    return fail(Code::kUnavailable, "UpstreamUnreachable",
                fmt::format("{}:{} cannot be reached: {}.", to_.host, to_.port, why));
  };
  stream_.deadline().set(to_.connect_time);  // closes nothing that is not open yet: resolving is numeric
  boost::system::error_code fault;
  const auto address = asio::ip::make_address(to_.host, fault);
  std::vector<Tcp::endpoint> endpoints;
  if (!fault) {
    endpoints.emplace_back(address, static_cast<uint16_t>(to_.port));
  } else {
    Tcp::resolver resolver(stream_.socket().get_executor());
    const auto [failed, found] = co_await resolver.async_resolve(to_.host, fmt::to_string(to_.port), kTuple);
    if (failed) co_return refused(failed.message());
    for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  }
  if (stream_.deadline().expired()) co_return refused("no answer in time");
  const auto [failed, chosen] = co_await asio::async_connect(stream_.socket(), endpoints, kTuple);
  if (stream_.deadline().expired()) co_return refused("no answer in time");
  if (failed) co_return refused(failed.message());
  boost::system::error_code ignored;
  stream_.socket().set_option(Tcp::no_delay(true), ignored);
  co_return Result<void>{};
}

std::string Fetch::head() const {
  const std::string host = to_.host.find(':') == std::string::npos ? to_.host : "[" + to_.host + "]";
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n", to_.method,
                                 to_.target, host, to_.port);
  for (const auto& [name, value] : to_.headers.all())
    if (!is_hop_by_hop(name)) text += fmt::format("{}: {}\r\n", name, value);
  if (to_.body) text += fmt::format("Content-Length: {}\r\n", to_.body->size());
  return text + "\r\n";
}

asio::awaitable<Result<ParsedAnswer>> Fetch::read_head() {
  while (true) {
    size_t scanned = 0;
    HeadEnd end = find_head_end(stream_.buffered(), scanned);
    while (end == HeadEnd::kNotYet && stream_.buffered().size() <= kAnswerHeadBytes) {
      stream_.deadline().set(to_.idle_time);
      if (const Io io = co_await stream_.fill(); io != Io::kOk) co_return broken(io);
      end = find_head_end(stream_.buffered(), scanned);
    }
    if (end != HeadEnd::kFound) co_return lost("The other server's answer is malformed.");
    auto answer = check_answer_block(stream_.buffered().substr(0, scanned));
    if (!answer || answer->status == 101) co_return lost("The other server's answer is malformed.");
    stream_.consume(scanned);
    if (answer->status >= 200) co_return std::move(*answer);
  }
}

asio::awaitable<Result<Response>> Fetch::read_body(ParsedAnswer answer, size_t limit, OnPart on_part) {
  Response out{answer.status, std::move(answer.headers), {}};
  if (has_no_body(answer.status)) co_return out;
  if (answer.framing == Framing::kNone) co_return lost("The other server's answer has no length.");
  const bool pass_on = on_part && answer.status / 100 == 2;
  stream_.deadline().clear();
  if (pass_on && !co_await on_part({})) co_return out;
  Body body(stream_, answer.framing, answer.length);
  while (!body.done()) {
    auto part = co_await body.next(to_.idle_time);
    stream_.deadline().clear();  // what the caller does with it takes its own time
    if (!part && part.error() == BodyFault::kTimedOut) co_return broken(Io::kTimedOut);
    if (!part) co_return lost("The other server's answer broke off.");
    if (pass_on) {
      if (!part->empty() && !co_await on_part(*part)) co_return out;
      continue;
    }
    out.body += *part;
    if (out.body.size() > limit) co_return lost("The other server's answer is too long.");
  }
  co_return out;
}

asio::awaitable<Result<Response>> Fetch::run(size_t limit, OnPart on_part) {
  if (auto connected = co_await connect(); !connected)
    co_return std::unexpected(std::move(connected.error()));
  const std::string text = head() + to_.body.value_or("");
  if (const Io io = co_await stream_.write(text, to_.idle_time); io != Io::kOk) co_return broken(io);
  auto answer = co_await read_head();
  if (!answer) co_return std::unexpected(std::move(answer.error()));
  auto response = co_await read_body(std::move(*answer), limit, std::move(on_part));
  stream_.close();
  co_return response;
}

}  // namespace

asio::awaitable<Result<Response>> fetch(Upstream to, size_t limit, OnPart on_part) {
  Tcp::socket socket(co_await asio::this_coro::executor);
  Fetch run(std::move(to), std::move(socket));
  co_return co_await run.run(limit, std::move(on_part));
}

}  // namespace nodus::http
