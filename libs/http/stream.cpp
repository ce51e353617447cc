#include "libs/http/stream.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace nodus::http {

namespace asio = boost::asio;

namespace {
constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kSmallReadBytes = 4 * 1024;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
}  // namespace

Deadline::Deadline(const asio::any_io_executor& executor, std::function<void()> on_expire)
    : state_(std::make_shared<State>(executor)) {
  state_->on_expire = std::move(on_expire);
}

Deadline::~Deadline() {
  state_->on_expire = nullptr;
  state_->timer.cancel();
}

void Deadline::set(Millis from_now) {
  state_->expired = false;
  state_->at = Clock::now() + from_now;
  if (state_->at < state_->armed) arm(state_);
}

void Deadline::clear() {
  state_->expired = false;
  state_->at = Clock::time_point::max();
}

void Deadline::arm(const std::shared_ptr<State>& state) {
  state->armed = state->at;
  state->timer.expires_at(state->at);
  state->timer.async_wait([weak = std::weak_ptr(state)](boost::system::error_code fault) {
    const auto live = weak.lock();
    if (fault || !live) return;
    live->armed = Clock::time_point::max();
    if (live->at == Clock::time_point::max()) return;
    if (Clock::now() < live->at) return arm(live);
    live->at = Clock::time_point::max();
    live->expired = true;
    if (live->on_expire) live->on_expire();
  });
}

Stream::Stream(Tcp::socket socket)
    : socket_(std::move(socket)), deadline_(socket_.get_executor(), [this] { cancel(); }) {}

void Stream::consume(size_t bytes) {
  used_ += bytes;
}

asio::awaitable<Io> Stream::fill() {
  if (ended_) co_return Io::kClosed;  // the reactor would wait for an event that has been
  buffer_.resize(filled_);
  buffer_.erase(0, used_);
  used_ = 0;
  filled_ = buffer_.size();
  if (filled_ == 0 && buffer_.capacity() > kReadBytes && !busy_) buffer_ = {};
  // A connection that waits for its next request has a small buffer; one that moves a body a big one.
  const size_t room = busy_ ? kReadBytes : kSmallReadBytes;
  buffer_.resize(filled_ + room);
  const auto [fault, got] =
      co_await socket_.async_read_some(asio::buffer(buffer_.data() + filled_, room), kTuple);
  filled_ += got;
  busy_ = got == room || (busy_ && got > kSmallReadBytes);
  if (!fault) co_return Io::kOk;
  ended_ = fault != asio::error::operation_aborted;
  co_return deadline_.expired() ? Io::kTimedOut : Io::kClosed;
}

asio::awaitable<Io> Stream::write(std::string_view bytes, Millis idle) {
  while (!bytes.empty()) {
    if (idle > Millis(0)) deadline_.set(idle);
    const auto [fault, wrote] =
        co_await socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), kTuple);
    if (fault) co_return deadline_.expired() ? Io::kTimedOut : Io::kClosed;
    bytes.remove_prefix(wrote);
  }
  co_return Io::kOk;
}

void Stream::cancel() {
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Stream::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void Stream::abort() {
  boost::system::error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

Body::Body(Stream& stream, Framing framing, uint64_t length)
    : stream_(stream),
      framing_(framing),
      left_(framing == Framing::kLength ? length : 0),
      done_(framing == Framing::kNone || (framing == Framing::kLength && length == 0)) {}

std::optional<uint64_t> Body::known_left() const {
  if (framing_ == Framing::kChunked && !done_) return std::nullopt;
  return left_;
}

asio::awaitable<std::expected<std::string, BodyFault>> Body::next(Millis idle) {
  std::string part;
  started_ = true;
  while (!done_) {
    const std::string_view ready = stream_.buffered();
    if (framing_ == Framing::kLength) {
      part = ready.substr(0, static_cast<size_t>(std::min<uint64_t>(left_, kReadBytes)));
      left_ -= part.size();
      done_ = left_ == 0;
      stream_.consume(part.size());
    } else {
      const size_t taken = decoder_.feed(ready, part, kReadBytes);
      stream_.consume(taken);
      if (decoder_.malformed()) co_return std::unexpected(BodyFault::kMalformed);
      done_ = decoder_.done();
    }
    if (!part.empty() || done_) break;
    if (idle > Millis(0)) stream_.deadline().set(idle);
    const Io io = co_await stream_.fill();
    if (io == Io::kTimedOut) co_return std::unexpected(BodyFault::kTimedOut);
    if (io == Io::kClosed) co_return std::unexpected(BodyFault::kClosed);
  }
  co_return part;
}

}  // namespace nodus::http
