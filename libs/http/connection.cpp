#include "libs/http/connection.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "libs/base/random.hpp"
#include "libs/http/answer.hpp"
#include "libs/http/target.hpp"
#include "libs/telemetry/log.hpp"

namespace nodus::http {

namespace asio = boost::asio;

namespace {

constexpr Millis kLingerTime{2'000};

Error overloaded() {
  Error error{Code::kUnavailable,
              "Overloaded",
              "The server has more connections than it can serve; try again.",
              {},
              {},
              ""};
  error.retry_after_s = 1 + static_cast<int>(random_below(4));
  return error;
}

}  // namespace

RouteMetrics route_metrics(const std::string& name) {
  static const std::vector<double> kBuckets{0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60};
  RouteMetrics made;
  for (size_t i = 1; i < made.requests.size(); ++i)
    made.requests[i] = metrics::counter("nodus_http_requests_total", "Requests answered.",
                                        {{"route", name}, {"status", std::to_string(i) + "xx"}});
  made.seconds =
      metrics::histogram("nodus_http_request_seconds", "From the request's head to the answer's end.",
                         kBuckets, {{"route", name}});
  return made;
}

Core::Core(ServerOptions given)
    : options(std::move(given)),
      unrouted(route_metrics("none")),
      refused(metrics::counter("nodus_http_refused_total", "Malformed requests.")),
      overloaded(metrics::counter("nodus_http_overloaded_total", "Answered 503 for want of room.")),
      displaced(metrics::counter("nodus_http_displaced_total", "Idle connections closed to make room.")),
      open(metrics::gauge("nodus_http_connections_open", "Client connections.")),
      workers(options.workers, options.queue_limit) {}

Connection::Connection(Core& core, Tcp::socket socket, std::string peer)
    : core_(core), stream_(std::move(socket)), peer_(std::move(peer)) {
  core_.open.add(1);
}

Connection::~Connection() {
  core_.open.add(-1);
  std::lock_guard lock(core_.mutex);
  core_.connections.erase(this);
}

void Connection::mark_idle(bool idle) {
  idle_since_ = idle ? std::chrono::steady_clock::now().time_since_epoch().count() : 0;
}

void Connection::drain() {
  if (idle_) stream_.cancel();
}

asio::awaitable<Result<ParsedHead>> Connection::read_head() {
  size_t scanned = 0;
  HeadEnd end = find_head_end(stream_.buffered(), scanned);
  while (end == HeadEnd::kNotYet && scanned <= core_.options.limits.header_bytes) {
    const Io io = co_await stream_.fill();
    if (io == Io::kTimedOut)
      co_return fail(Code::kBadRequest, "RequestTimeout", "The request's header did not arrive in time.");
    if (io == Io::kClosed)
      co_return fail(Code::kUnavailable, "ClientGone", "The client closed the connection.");
    end = find_head_end(stream_.buffered(), scanned);
  }
  if (end == HeadEnd::kMalformed)
    co_return fail(Code::kBadRequest, "MalformedRequest", "This is not an HTTP/1.1 request.");
  if (scanned > core_.options.limits.header_bytes)
    co_return fail(Code::kBadRequest, "RequestHeaderFieldsTooLarge", "The request's header is too large.");
  auto head = check_header_block(stream_.buffered().substr(0, scanned));
  stream_.consume(scanned);
  co_return head;
}

asio::awaitable<void> Connection::refuse(const Error& error) {
  core_.refused.add();
  const Response response = status(error);
  const AnswerHead head{
      .status = response.status, .length = response.body.size(), .close = true, .upgrade = ""};
  const std::string text = write_answer_head(head, response.headers) + response.body;
  co_await stream_.write(text, core_.options.limits.body_idle_time);
}

// Closes so that the client still gets the answer: closing with unread bytes would reset the connection.
asio::awaitable<void> Connection::linger() {
  boost::system::error_code ignored;
  stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  stream_.deadline().set(kLingerTime);
  while (!ignored) {
    stream_.consume(stream_.buffered().size());
    if (co_await stream_.fill() != Io::kOk) break;
  }
  stream_.close();
}

asio::awaitable<void> Connection::refuse_overload() {
  const auto self = shared_from_this();
  core_.overloaded.add();
  stream_.deadline().set(kLingerTime);
  co_await refuse(overloaded());
  co_await linger();
}

asio::awaitable<void> Connection::run() {
  const auto self = shared_from_this();
  const Limits& limits = core_.options.limits;
  bool first = true;
  while (!core_.draining) {
    mark_idle(true);
    if (stream_.buffered().empty()) {
      idle_ = true;
      stream_.deadline().set(first ? limits.header_time : limits.keep_alive_time);
      const Io io = co_await stream_.fill();
      idle_ = false;
      if (io != Io::kOk) break;
    }
    stream_.deadline().set(limits.header_time);
    const Result<ParsedHead> head = co_await read_head();
    stream_.deadline().clear();
    mark_idle(false);
    if (!head) {
      if (head.error().reason != "ClientGone") co_await refuse(head.error());
      break;
    }
    if (!co_await serve(*head)) break;
    first = false;
  }
  co_await linger();
}

asio::awaitable<bool> Connection::serve(const ParsedHead& head) {
  const auto begun = std::chrono::steady_clock::now();
  auto target = parse_target(head.target);
  if (!target) {
    co_await refuse(target.error());
    co_return false;
  }
  Router::Match match = core_.router.find(head.method, target->segments);
  Request request{.method = head.method,
                  .target = head.target,
                  .segments = std::move(target->segments),
                  .query = std::move(target->query),
                  .params = std::move(match.params),
                  .headers = head.headers,
                  .body = "",
                  .peer = peer_};
  ServerExchange exchange(stream_, head, std::move(request), core_.options.limits, core_.workers);
  if (core_.draining || head.method == "CONNECT") exchange.close_after();
  exchange.set_cutter([weak = weak_from_this(), serial = ++served_] {
    const auto live = weak.lock();
    if (!live) return;
    asio::post(live->executor(), [live, serial] {
      if (live->served_ == serial) live->abort();
    });
  });
  if (match.route) {
    co_await handle(exchange, *match.route);
  } else if (!match.allow.empty()) {
    Response response = status({Code::kBadRequest,
                                "MethodNotAllowed",
                                "This path does not take " + head.method + "; it takes " + match.allow + ".",
                                {},
                                {},
                                ""});
    response.headers.set("Allow", match.allow);
    co_await exchange.respond(std::move(response));
  } else {
    co_await exchange.respond(
        status({Code::kNotFound, "NotFound", "There is nothing at this path.", {}, {}, ""}));
  }
  auto found = core_.by_route.find(match.route);
  RouteMetrics& measured = found == core_.by_route.end() ? core_.unrouted : found->second;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
  measured.seconds.observe(seconds.count());
  if (exchange.status() >= 100 && exchange.status() < 600)
    measured.requests[static_cast<size_t>(exchange.status() / 100)].add();
  if (exchange.broken() || !exchange.answered()) {
    stream_.abort();
    co_return false;
  }
  co_return co_await exchange.reusable();
}

asio::awaitable<void> Connection::handle(ServerExchange& exchange, const Route& route) {
  std::string fault;
  try {
    if (route.handler) {
      co_await handle_buffered(exchange, route);
    } else {
      if (route.body_bytes) exchange.limit_body(*route.body_bytes);
      co_await route.stream(exchange);
      if (!exchange.begun() && !exchange.broken()) fault = "the handler did not answer";
    }
  } catch (const std::exception& e) {
    fault = e.what();
  }
  if (fault.empty()) co_return;
  const Error error{Code::kInternal, "HandlerFailed", route.name + ": " + fault, {}, {}, ""};
  if (exchange.begun()) {
    log::error("http.handler_failed", {{"route", route.name}, {"message", fault}});
  } else {
    co_await exchange.respond(status(error));
  }
}

asio::awaitable<void> Connection::handle_buffered(ServerExchange& exchange, const Route& route) {
  auto body = co_await exchange.read_body(route.body_bytes.value_or(core_.options.limits.body_bytes));
  if (!body) {
    if (!exchange.broken()) co_await exchange.respond(status(body.error()));
    co_return;
  }
  exchange.mutable_request().body = std::move(*body);
  Response response;
  const Result<void> ran = co_await exchange.run_blocking([&] {
    try {
      response = route.handler(exchange.request());
    } catch (const std::exception& e) {
      response = status({Code::kInternal, "HandlerFailed", route.name + ": " + e.what(), {}, {}, ""});
    }
  });
  if (!ran) {
    core_.overloaded.add();
    response = status(ran.error());
  }
  co_await exchange.respond(std::move(response));
}

}  // namespace nodus::http
