#include "libs/http/unix_stream.hpp"

#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace nodus::http {

namespace asio = boost::asio;

namespace {
std::unexpected<Error> lost() {
  return fail(Code::kUnavailable, "ConnectionLost", "The other side of a local connection left.");
}
}  // namespace

struct UnixStream::State {
  explicit State(const asio::any_io_executor& executor) : socket(executor), timer(executor) {}
  asio::local::stream_protocol::socket socket;
  asio::steady_timer timer;
  Millis step_time{0};

  // Ends what is under way when it takes too long. The handler may outlive the stream.
  static void arm(const std::shared_ptr<State>& self) {
    self->timer.expires_after(self->step_time);
    self->timer.async_wait([self](const boost::system::error_code& fault) {
      boost::system::error_code ignored;
      if (!fault) self->socket.close(ignored);
    });
  }
};

UnixStream::~UnixStream() {
  boost::system::error_code ignored;
  state_->timer.cancel();
  state_->socket.close(ignored);
}

asio::awaitable<Result<std::unique_ptr<UnixStream>>> UnixStream::adopt(int fd, Millis step_time) {
  const auto executor = co_await asio::this_coro::executor;
  auto state = std::make_shared<State>(executor);
  boost::system::error_code fault;
  state->socket.assign(asio::local::stream_protocol(), fd, fault);
  if (fault) {
    close(fd);
    co_return lost();
  }
  state->step_time = step_time;
  co_return std::unique_ptr<UnixStream>(new UnixStream(std::move(state)));
}

asio::awaitable<Result<void>> UnixStream::write(std::string_view bytes) {
  boost::system::error_code fault;
  State::arm(state_);
  co_await asio::async_write(state_->socket, asio::buffer(bytes.data(), bytes.size()),
                             asio::redirect_error(asio::use_awaitable, fault));
  state_->timer.cancel();
  if (fault) co_return lost();
  co_return Result<void>();
}

asio::awaitable<Result<std::string>> UnixStream::read(size_t count) {
  boost::system::error_code fault;
  std::string bytes(count, '\0');
  State::arm(state_);
  co_await asio::async_read(state_->socket, asio::buffer(bytes),
                            asio::redirect_error(asio::use_awaitable, fault));
  state_->timer.cancel();
  if (fault) co_return lost();
  co_return std::move(bytes);
}

void UnixStream::end_writing() {
  boost::system::error_code ignored;
  state_->socket.shutdown(asio::local::stream_protocol::socket::shutdown_send, ignored);
}

int UnixStream::release() {
  boost::system::error_code fault;
  state_->timer.cancel();
  if (!state_->socket.is_open()) return -1;
  const int fd = state_->socket.release(fault);
  return fault ? -1 : fd;
}

}  // namespace nodus::http
