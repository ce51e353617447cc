// One client's connection: reads heads, finds routes, runs handlers, keeps the connection or closes it.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "libs/http/exchange.hpp"
#include "libs/http/router.hpp"
#include "libs/http/server.hpp"
#include "libs/http/stream.hpp"
#include "libs/http/workers.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::http {

class Connection;

struct RouteMetrics {
  std::array<metrics::Counter, 6> requests;  // by the first digit of the status
  metrics::Histogram seconds;
};
RouteMetrics route_metrics(const std::string& route_name);

// What all connections of a server share. Thread-safe as noted.
struct Core {
  explicit Core(ServerOptions given);
  const ServerOptions options;
  Router router;                                            // not changed after start
  std::unordered_map<const Route*, RouteMetrics> by_route;  // not changed after start
  RouteMetrics unrouted;
  metrics::Counter refused;     // malformed requests
  metrics::Counter overloaded;  // answered 503 for want of room
  metrics::Counter displaced;   // closed while idle, to make room
  metrics::Gauge open;
  Workers workers;
  std::atomic<bool> draining = false;
  std::mutex mutex;  // guards connections
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Core& core, Tcp::socket socket, std::string peer);
  ~Connection();
  boost::asio::awaitable<void> run();
  boost::asio::awaitable<void> refuse_overload();  // instead of run
  // On the connection's strand.
  void drain();
  void abort() { stream_.abort(); }
  // Nothing is lost when it is aborted now: no request is under way. From any thread.
  bool idle() const { return idle_since_.load(std::memory_order_relaxed) != 0; }
  int64_t idle_since() const { return idle_since_.load(std::memory_order_relaxed); }
  void make_room() {
    if (idle()) stream_.abort();
  }
  const std::string& peer() const { return peer_; }
  boost::asio::any_io_executor executor() { return stream_.socket().get_executor(); }

 private:
  boost::asio::awaitable<Result<ParsedHead>> read_head();
  boost::asio::awaitable<bool> serve(const ParsedHead& head);  // true: go on with the next request
  boost::asio::awaitable<void> handle(ServerExchange& exchange, const Route& route);
  boost::asio::awaitable<void> handle_buffered(ServerExchange& exchange, const Route& route);
  boost::asio::awaitable<void> refuse(const Error& error);
  boost::asio::awaitable<void> linger();
  void mark_idle(bool idle);

  Core& core_;
  Stream stream_;
  const std::string peer_;
  bool idle_ = false;                    // waits for the first byte of a request
  std::atomic<int64_t> idle_since_ = 0;  // of the steady clock; 0: a request is under way
  uint64_t served_ = 0;                  // requests so far
};

}  // namespace nodus::http
