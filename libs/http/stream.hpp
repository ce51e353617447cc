// A socket with a deadline and a buffer of what was read but not yet used, and the body that is read from it.
// Used by one strand; not thread-safe.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "libs/base/clock.hpp"
#include "libs/http/chunked.hpp"
#include "libs/http/head.hpp"

namespace nodus::http {

using Tcp = boost::asio::ip::tcp;

// Calls `on_expire` on the executor when the time set last has passed. Setting it is cheap: the timer is
// armed again only when it fires, or when the new time is earlier.
class Deadline {
 public:
  Deadline(const boost::asio::any_io_executor& executor, std::function<void()> on_expire);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  void set(Millis from_now);
  void clear();
  bool expired() const { return state_->expired; }

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    explicit State(const boost::asio::any_io_executor& executor) : timer(executor) {}
    boost::asio::steady_timer timer;
    std::function<void()> on_expire;
    Clock::time_point at = Clock::time_point::max();
    Clock::time_point armed = Clock::time_point::max();
    bool expired = false;
  };
  static void arm(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

enum class Io { kOk, kClosed, kTimedOut };

class Stream {
 public:
  explicit Stream(Tcp::socket socket);
  Tcp::socket& socket() { return socket_; }
  Deadline& deadline() { return deadline_; }

  // Neither is disturbed by a fill that waits; the view holds until the next fill begins.
  std::string_view buffered() const { return std::string_view(buffer_).substr(used_, filled_ - used_); }
  void consume(size_t bytes);
  boost::asio::awaitable<Io> fill();  // at least one more byte is buffered; after the end always kClosed
  // All of it; `idle` is for each piece that the peer takes, 0 leaves the deadline alone.
  boost::asio::awaitable<Io> write(std::string_view bytes, Millis idle);
  void cancel();  // ends what is under way with kClosed
  void close();
  void abort();  // close with a reset: the peer cannot take it for an end

 private:
  Tcp::socket socket_;
  Deadline deadline_;
  std::string buffer_;  // used, filled, room of a read that waits
  size_t used_ = 0;
  size_t filled_ = 0;
  bool busy_ = false;   // the last read filled its room
  bool ended_ = false;  // nothing more can be read
};

// How fast a peer is, counted only while we wait for it.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  Pace(Millis grace, size_t bytes_per_s) : grace_(grace), bytes_per_s_(bytes_per_s) {}
  void begin() { began_ = Clock::now(); }
  void end(size_t bytes) {
    waited_ += Clock::now() - began_;
    bytes_ += bytes;
  }
  bool too_slow() const {
    const auto over = std::chrono::duration_cast<std::chrono::duration<double>>(waited_ - grace_).count();
    return over > 0 && static_cast<double>(bytes_) < over * static_cast<double>(bytes_per_s_);
  }

 private:
  const Clock::duration grace_;
  const size_t bytes_per_s_;
  Clock::time_point began_{};
  Clock::duration waited_{0};
  uint64_t bytes_ = 0;
};

enum class BodyFault { kClosed, kTimedOut, kMalformed };

class Body {
 public:
  Body(Stream& stream, Framing framing, uint64_t length);
  bool done() const { return done_; }
  bool started() const { return started_; }
  // Bytes still to come, if the length is known.
  std::optional<uint64_t> known_left() const;
  // The next part, at most 64 KiB; "" at the end. `idle` as in Stream::write, per read.
  boost::asio::awaitable<std::expected<std::string, BodyFault>> next(Millis idle);

 private:
  Stream& stream_;
  Framing framing_;
  uint64_t left_;
  ChunkDecoder decoder_;
  bool done_;
  bool started_ = false;
};

}  // namespace nodus::http
