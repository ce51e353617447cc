// A connected Unix socket for the coroutines of an Exchange: exact reads, whole writes, a deadline for each
// step. One step at a time.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"

namespace nodus::http {

class UnixStream {
 public:
  // Takes the descriptor, which is nonblocking and connected, whatever it answers.
  static boost::asio::awaitable<Result<std::unique_ptr<UnixStream>>> adopt(int fd, Millis step_time);
  ~UnixStream();

  // Errors: Unavailable/ConnectionLost, also when the step took too long; the stream is of no use after it,
  // except that what the peer said before it left can still be read after a failed write.
  boost::asio::awaitable<Result<void>> write(std::string_view bytes);
  boost::asio::awaitable<Result<std::string>> read(size_t count);

  void end_writing();  // the peer reads the end of the stream; it may still answer

  // The descriptor, between two steps; -1 when the stream is closed. It is the caller's, and adopt() takes
  // it.
  int release();

 private:
  struct State;
  explicit UnixStream(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace nodus::http
