#include "libs/http/server.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <condition_variable>
#include <thread>
#include <utility>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"
#include "libs/http/connection.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::http {

namespace asio = boost::asio;

namespace {

constexpr size_t kOverloadAnswers = 256;  // connections beyond the limit that get their 503 at a time

Result<Tcp::endpoint> parse_listen(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  uint16_t port = 0;
  const char* begin = listen.data() + (colon == std::string::npos ? listen.size() : colon + 1);
  const auto [end, fault] = std::from_chars(begin, listen.data() + listen.size(), port);
  boost::system::error_code bad_address;
  const auto address = asio::ip::make_address(host, bad_address);
  if (bad_address || fault != std::errc() || end != listen.data() + listen.size())
    return fail(Code::kInvalid, "ListenAddressInvalid",
                fmt::format("\"{}\" is not an address and a port such as 127.0.0.1:7400.", listen));
  return Tcp::endpoint(address, port);
}

bool may_read_metrics(const Request& request, const std::string& token) {
  boost::system::error_code fault;
  const auto peer = asio::ip::make_address(request.peer, fault);
  const bool local = !fault && (peer.is_loopback() ||
                                (peer.is_v6() && peer.to_v6().is_v4_mapped() &&
                                 asio::ip::make_address_v4(asio::ip::v4_mapped, peer.to_v6()).is_loopback()));
  const bool proxied = request.headers.get("Forwarded") || request.headers.get("X-Forwarded-For");
  if (local && !proxied) return true;
  return !token.empty() &&
         equal_in_constant_time(request.headers.get("Authorization").value_or(""), "Bearer " + token);
}

// A connection may need a second descriptor, to another server. The process gets all that it may have: a
// flood that used up the descriptors would keep out everybody.
size_t affordable() {
  constexpr rlim_t kForTheRest = 256, kEnough = 1 << 20;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 256;
  const rlim_t most = std::min(files.rlim_max, kEnough);
  if (files.rlim_cur < most) {
    files.rlim_cur = most;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  return most > 2 * kForTheRest ? (most - kForTheRest) / 2 : kForTheRest / 2;
}

}  // namespace

struct Server::State {
  explicit State(ServerOptions options)
      : core(std::move(options)), io(core.options.io_threads), acceptor(asio::make_strand(io)) {}

  asio::awaitable<void> accept_loop();
  void admit(Tcp::socket socket);
  bool make_room();
  size_t open() {
    std::lock_guard lock(core.mutex);
    return core.connections.size();
  }
  void for_each(void (Connection::*action)());
  bool wait_until_closed(std::chrono::steady_clock::time_point until);

  Core core;
  asio::io_context io;
  Tcp::acceptor acceptor;  // used on one strand
  std::vector<std::thread> threads;
  int port = 0;
  size_t connections = 0;  // the limit: what is asked for, as far as descriptors go
  bool started = false;
  bool stopped = false;
};

asio::awaitable<void> Server::State::accept_loop() {
  constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
  asio::steady_timer pause(acceptor.get_executor());
  while (acceptor.is_open()) {
    auto [fault, socket] = co_await acceptor.async_accept(asio::make_strand(io), kTuple);
    if (!fault) {
      admit(std::move(socket));
    } else if (acceptor.is_open() && fault != asio::error::operation_aborted) {
      // Out of file descriptors, say: those that are open go on, and free some.
      log::warn("http.accept_failed", {{"message", fault.message()}});
      pause.expires_after(Millis(100));
      co_await pause.async_wait(kTuple);
    }
  }
}

// Ends the oldest connections that have no request under way, of the address that has the most of all: many
// that are opened and left open cost others nothing. False: there is none.
bool Server::State::make_room() {
  std::vector<std::shared_ptr<Connection>> all;
  {
    std::lock_guard lock(core.mutex);
    for (const auto& [_, weak] : core.connections)
      if (auto live = weak.lock()) all.push_back(std::move(live));
  }
  std::unordered_map<std::string_view, size_t> by_peer;
  for (const auto& connection : all) ++by_peer[connection->peer()];
  std::erase_if(all, [](const auto& connection) { return !connection->idle(); });
  if (all.empty()) return false;
  const auto heaviest = std::ranges::max(all, {}, [&](const auto& c) { return by_peer[c->peer()]; });
  const std::string peer = heaviest->peer();
  std::erase_if(all, [&](const auto& connection) { return connection->peer() != peer; });
  const size_t room = std::min(all.size(), 1 + connections / 64);
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(room), {},
                            [](const auto& c) { return c->idle_since(); });
  all.resize(room);
  for (const auto& connection : all)
    asio::post(connection->executor(), [connection] { connection->make_room(); });
  core.displaced.add(static_cast<double>(room));
  return true;
}

void Server::State::admit(Tcp::socket socket) {
  boost::system::error_code ignored;
  const auto remote = socket.remote_endpoint(ignored);
  socket.set_option(Tcp::no_delay(true), ignored);
  const auto executor = socket.get_executor();
  const size_t limit = connections;
  const size_t before = open();
  if (before >= limit + kOverloadAnswers) return;  // closed without a word
  const bool full = before >= limit && !make_room();
  auto connection = std::make_shared<Connection>(core, std::move(socket), remote.address().to_string());
  {
    std::lock_guard lock(core.mutex);
    core.connections.emplace(connection.get(), connection);
  }
  // The strand's coroutine holds the connection; its frame goes away on the strand.
  auto task = [connection, full]() -> asio::awaitable<void> {
    if (full) {
      co_await connection->refuse_overload();
    } else {
      co_await connection->run();
    }
  };
  connection.reset();
  asio::co_spawn(executor, std::move(task), asio::detached);
}

void Server::State::for_each(void (Connection::*action)()) {
  std::vector<std::weak_ptr<Connection>> all;
  {
    std::lock_guard lock(core.mutex);
    for (const auto& [_, connection] : core.connections) all.push_back(connection);
  }
  for (const auto& weak : all) {
    const auto live = weak.lock();
    if (!live) continue;
    asio::post(live->executor(), [live, action] { ((*live).*action)(); });
  }
}

bool Server::State::wait_until_closed(std::chrono::steady_clock::time_point until) {
  while (open() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(Millis(5));
  return open() == 0;
}

Server::Server(ServerOptions options) : state_(std::make_unique<State>(std::move(options))) {}

Server::~Server() {
  stop(Millis(0));
}

void Server::route(Route route) {
  CHECK(!state_->started, "routes are added before the server starts");
  state_->core.router.add(std::move(route));
}

const std::vector<Route>& Server::routes() const {
  return state_->core.router.routes();
}

void Server::health_routes(std::function<Result<void>()> ready, std::optional<std::string> metrics_token) {
  const auto text = [](std::string body) {
    Response response;
    response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    response.body = std::move(body);
    return response;
  };
  route({.method = "GET",
         .pattern = "/livez",
         .name = "livez",
         .handler = [text](const Request&) { return text("ok\n"); },
         .stream = {},
         .body_bytes = {}});
  route({.method = "GET",
         .pattern = "/readyz",
         .name = "readyz",
         .handler =
             [text, ready = std::move(ready)](const Request&) {
               Result<void> result = ready();
               if (result) return text("ok\n");
               result.error().code = Code::kUnavailable;
               return status(result.error());
             },
         .stream = {},
         .body_bytes = {}});
  route({.method = "GET",
         .pattern = "/metrics",
         .name = "metrics",
         .handler =
             [text, metrics_token](const Request& request) {
               if (!metrics_token || may_read_metrics(request, *metrics_token))
                 return text(metrics::render());
               return status({Code::kNotFound, "NotFound", "There is nothing at this path.", {}, {}, ""});
             },
         .stream = {},
         .body_bytes = {}});
}

Result<void> Server::start() {
  State& state = *state_;
  CHECK(!state.started, "a server starts once");
  state.connections = std::min(static_cast<size_t>(state.core.options.limits.connections), affordable());
  const auto endpoint = parse_listen(state.core.options.listen);
  if (!endpoint) return std::unexpected(endpoint.error());
  boost::system::error_code fault;
  state.acceptor.open(endpoint->protocol(), fault);
  if (!fault) state.acceptor.set_option(Tcp::acceptor::reuse_address(true), fault);
  if (!fault) state.acceptor.bind(*endpoint, fault);
  if (!fault) state.acceptor.listen(asio::socket_base::max_listen_connections, fault);
  if (fault)
    return fail(Code::kUnavailable, fault == asio::error::address_in_use ? "PortTaken" : "ListenFailed",
                fmt::format("Cannot listen on {}: {}.", state.core.options.listen, fault.message()));
  state.port = state.acceptor.local_endpoint().port();
  for (const Route& route : state.core.router.routes())
    state.core.by_route.emplace(&route, route_metrics(route.name));
  state.started = true;
  asio::co_spawn(state.acceptor.get_executor(), state.accept_loop(), asio::detached);
  for (int i = 0; i < state.core.options.io_threads; ++i)
    state.threads.emplace_back([&state] { state.io.run(); });
  return {};
}

int Server::port() const {
  return state_->port;
}

void Server::stop(Millis patience) {
  State& state = *state_;
  if (!state.started || std::exchange(state.stopped, true)) return;
  const auto until = std::chrono::steady_clock::now() + patience;
  state.core.draining = true;
  asio::post(state.acceptor.get_executor(), [&state] {
    boost::system::error_code ignored;
    state.acceptor.close(ignored);
  });
  state.for_each(&Connection::drain);
  if (!state.wait_until_closed(until)) {
    state.for_each(&Connection::abort);
    state.wait_until_closed(std::chrono::steady_clock::now() + Millis(200));
  }
  state.core.workers.stop();
  state.io.stop();
  for (std::thread& thread : state.threads) thread.join();
}

}  // namespace nodus::http
