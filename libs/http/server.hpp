// An HTTP/1.1 server with strict request checks. The owner of Asio. Coroutines at the edge; handlers of
// buffered routes are plain functions that run on a bounded pool of worker threads, so they may block on the
// database.
//
// Refused with 400 and a closed connection: no Host or two, obs-fold, whitespace before the colon,
// Transfer-Encoding other than "chunked" or together with Content-Length, two Content-Length (or another
// field that may be there once), chunked in HTTP/1.0, invalid field characters, bare LF, chunk extensions,
// encoded slashes, dot or empty segments and control characters in the path. Trailers are dropped. 431 header
// block too large; 413 body too large (before it is read when Content-Length says so); 408 too slow; 417
// another Expect. In a query "+" is a space. See docs/adr/0006-http.md.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "libs/base/clock.hpp"
#include "libs/http/message.hpp"

namespace nodus::http {

struct Limits {
  size_t header_bytes = 32 * 1024;
  size_t body_bytes = 1024 * 1024;  // of buffered routes; a route may set its own
  Millis header_time{10'000};
  Millis body_idle_time{30'000};  // between two reads of a body
  // A peer that makes us wait longer than this in all may not be slower than the pace, whether it sends a
  // body or takes an answer: 408, or cut off.
  Millis pace_grace{60'000};
  size_t pace_bytes_per_s = 1024;
  Millis keep_alive_time{75'000};
  // Beyond: the oldest that have no request under way make room, those of the address with the most first;
  // when there are none, the new one is answered 503 and closed.
  int connections = 4096;
};

// Another HTTP server, to which an exchange can be handed on.
struct Upstream {
  std::string host;
  int port = 0;
  std::string target;               // path and query to ask for
  std::string method;               // empty: the client's
  Headers headers;                  // exactly these are sent, besides Host and the framing
  std::optional<std::string> body;  // instead of the client's body
  // Asked once with the upstream's status and headers; an answer is sent instead of the upstream's.
  std::function<std::optional<Response>(int status, const Headers&)> intercept;
  size_t body_limit = 0;  // of the client's body; more → 413/FileTooLarge to the client
  Millis connect_time{2'000};
  Millis idle_time{60'000};  // no byte in either direction
};

class WebSocket;  // websocket.hpp
struct WebSocketOptions;

// One request of a streaming route; used by one coroutine.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;

  virtual boost::asio::awaitable<Result<std::string>> read_body(size_t limit) = 0;  // whole
  virtual boost::asio::awaitable<Result<std::string>> read_some() = 0;  // next part; "" at the end
  virtual boost::asio::awaitable<void> respond(Response response) = 0;  // once
  // Then a body: chunked, or as long as Content-Length says; one that ends before that is cut off, so that
  // the client sees it.
  virtual boost::asio::awaitable<Result<void>> begin(int status, Headers headers) = 0;
  virtual boost::asio::awaitable<Result<void>> write(
      std::string_view bytes) = 0;  // flushed at once; error: client left
  virtual boost::asio::awaitable<Result<void>> finish() = 0;
  // Forwards the request and streams the answer back in constant memory; a 101 becomes a pipe in both
  // directions. An error means that nothing was sent to the client yet (refused, timed out before the
  // answer's header).
  virtual boost::asio::awaitable<Result<void>> proxy(Upstream upstream) = 0;

  // Makes a WebSocket of the connection. On an error the request is answered (400, or 426 for another
  // version) or the client has left.
  virtual boost::asio::awaitable<Result<std::unique_ptr<WebSocket>>> upgrade(WebSocketOptions options) = 0;
  // The client closed its side of the connection, as far as is known without reading; for who streams and has
  // nothing to write.
  virtual bool peer_left() = 0;

  // Runs a blocking function on the worker pool. Unavailable/Overloaded when the pool's queue is full.
  virtual boost::asio::awaitable<Result<void>> run_blocking(std::function<void()> work) = 0;

  // Whose work this is: the pool serves lanes in turn, so that one that asks for much does not delay the
  // others.
  virtual void set_lane(std::string lane) = 0;
  virtual int status() const = 0;  // of the answer so far; 0: none
  // Cuts the connection while this request is under way. Thread-safe, and may be kept longer than the
  // exchange.
  virtual std::function<void()> cutter() = 0;

  // What the request turned out to be about (the name of what it made), for whoever writes that down.
  void annotate(std::string object) { about_ = std::move(object); }
  const std::string& about() const { return about_; }

  // Called once with the answer's status (101: a WebSocket), before the first byte of it is sent: what must
  // be written down before the client can know.
  void before_answer(std::function<void(int status)> hook) { before_answer_ = std::move(hook); }

 protected:
  void answering(int status) {
    if (auto hook = std::exchange(before_answer_, nullptr)) hook(status);
  }

 private:
  std::string about_;
  std::function<void(int status)> before_answer_;
};

// Wakes coroutines that wait for something to happen to a key (a Sandbox, a machine). Thread-safe; `wait` is
// for coroutines of an Exchange. It returns false when the time is over; true may come without a notify of
// this very key, so look at the state again.
class Waiters {
 public:
  Waiters();
  ~Waiters();
  // Take a ticket before looking at the state, then wait with it: a notify in between is not lost.
  uint64_t ticket(const std::string& key);
  boost::asio::awaitable<bool> wait(std::string key, uint64_t ticket, Millis timeout);
  void notify(const std::string& key);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

using Handler = std::function<Response(const Request&)>;
using StreamHandler = std::function<boost::asio::awaitable<void>(Exchange&)>;

struct Route {
  std::string method;
  std::string pattern;  // "/apis/nodus.dev/v1/namespaces/{project}/sandboxes/{name}"
  std::string name;     // for metrics and for the table that tests are generated from
  Handler handler;      // one of the two
  StreamHandler stream;
  std::optional<size_t> body_bytes;
};

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // address:port; port 0: any free one
  int io_threads = 2;
  int workers = 8;
  int queue_limit = 1024;  // waiting for a worker; beyond: 503/Overloaded with a jittered Retry-After
  Limits limits;
};

class Server {
 public:
  Server(ServerOptions options);
  ~Server();
  void route(Route route);  // before start
  const std::vector<Route>& routes() const;
  // Adds /livez, /readyz (200 or 503 with what is missing) and /metrics. With `metrics_token`, /metrics
  // answers only clients on the loopback address that no proxy stands for, and bearers of the token (if it is
  // not empty); the others get 404.
  void health_routes(std::function<Result<void>()> ready, std::optional<std::string> metrics_token = {});
  Result<void> start();  // address in use → Unavailable/PortTaken
  int port() const;
  void stop(Millis patience = Millis(5'000));  // no new requests; waits for those under way

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nodus::http
