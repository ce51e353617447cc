#include "services/executor/process/file_stream.hpp"

#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>

#include "services/executor/helper/protocol.hpp"
#include "services/executor/process/helper_client.hpp"

namespace nodus::executor {
namespace asio = boost::asio;
using helper::FileStatus;
using helper::Kind;
using helper::Reader;
using helper::Writer;
namespace {
constexpr Seconds kStepTime{45};

std::unexpected<Error> silent() {
  return fail(Code::kUnavailable, "HelperSilent", "The Sandbox did not answer the file request; try again.");
}

std::unexpected<Error> file_error(FileStatus status, uint32_t error) {
  switch (status) {
    case FileStatus::kNotFound:
      return fail(Code::kNotFound, "NotFound", "There is no file at this path.");
    case FileStatus::kForbidden:
      return fail(Code::kForbidden, "Forbidden", "The Sandbox's user may not do this here.");
    case FileStatus::kNotAFile:
      return fail(Code::kInvalid, "NotAFile", "The path leads to something that is not a regular file.");
    case FileStatus::kNotEmpty:
      return fail(Code::kConflict, "DirectoryNotEmpty", "The directory is not empty.");
    case FileStatus::kTooLarge:
      return fail(Code::kTooLarge, "FileTooLarge", "A file is at most 64 MiB per request.");
    case FileStatus::kMismatch:
      return fail(Code::kPreconditionFailed, "SHA256Mismatch",
                  "The file has another content than expected. Read it again, merge, and retry.");
    case FileStatus::kNoSpace:
      return fail(Code::kConflict, "DiskFull", "The Sandbox's disk is full.");
    case FileStatus::kBadPath:
      return fail(Code::kInvalid, "PathInvalid", "An absolute path that names a file.");
    case FileStatus::kBusy: {
      auto busy =
          fail(Code::kTooManyRequests, "TooManyRequests", "Too many file requests at once; try again.");
      busy.error().retry_after_s = 1;
      return busy;
    }
    case FileStatus::kInterrupted:
      return fail(Code::kBadRequest, "BadRequest", "The file ended before its announced size.");
    default:
      return fail(Code::kInternal, "InternalError",
                  "The file request failed with errno " + std::to_string(error) + ".");
  }
}
}  // namespace

struct FileStream::State {
  explicit State(const asio::any_io_executor& executor) : socket(executor), timer(executor) {}
  asio::local::stream_protocol::socket socket;
  asio::steady_timer timer;
  const SlotView* slot = nullptr;
  bool broken = false;

  // Cancels what is under way when a step takes too long. The handler may outlive the stream.
  static void arm(const std::shared_ptr<State>& self) {
    self->timer.expires_after(kStepTime);
    self->timer.async_wait([self](const boost::system::error_code& fault) {
      boost::system::error_code ignored;
      if (!fault) self->socket.close(ignored);
    });
  }
};

FileStream::~FileStream() {
  boost::system::error_code ignored;
  state_->timer.cancel();
  state_->socket.close(ignored);
}

FileStream::Task<Result<std::unique_ptr<FileStream>>> FileStream::open(const SlotView& slot) {
  const auto executor = co_await asio::this_coro::executor;
  const int fd = connect_unix(slot.run_socket);
  if (fd < 0) co_return silent();
  auto state = std::make_shared<State>(executor);
  boost::system::error_code fault;
  state->socket.assign(asio::local::stream_protocol(), fd, fault);
  if (fault) {
    close(fd);
    co_return silent();
  }
  state->slot = &slot;
  std::unique_ptr<FileStream> stream(new FileStream(std::move(state)));
  auto hello = Writer(Kind::kHello).u8(helper::kVersion).u8(static_cast<uint8_t>(helper::Role::kFile)).take();
  if (auto sent = co_await stream->send(std::move(hello)); !sent) co_return std::unexpected(sent.error());
  co_return std::move(stream);
}

FileStream::Task<Result<void>> FileStream::send(std::string bytes) {
  boost::system::error_code fault;
  State::arm(state_);
  co_await asio::async_write(state_->socket, asio::buffer(bytes),
                             asio::redirect_error(asio::use_awaitable, fault));
  state_->timer.cancel();
  if (fault) co_return silent();
  co_return Result<void>();
}

FileStream::Task<Result<std::string>> FileStream::receive() {
  boost::system::error_code fault;
  std::string head(4, '\0'), body;
  State::arm(state_);
  co_await asio::async_read(state_->socket, asio::buffer(head),
                            asio::redirect_error(asio::use_awaitable, fault));
  uint32_t length = 0;
  for (int i = 0; i < 4; ++i) length |= static_cast<uint32_t>(static_cast<unsigned char>(head[i])) << (8 * i);
  if (!fault && length > 0 && length <= 2 * helper::kMaxData) {
    body.resize(length);
    co_await asio::async_read(state_->socket, asio::buffer(body),
                              asio::redirect_error(asio::use_awaitable, fault));
  }
  state_->timer.cancel();
  if (fault || body.empty()) co_return silent();
  co_return std::move(body);
}

FileStream::Task<Result<FileReply>> FileStream::reply() {
  auto frame = co_await receive();
  if (!frame) co_return std::unexpected(frame.error());
  Reader body(*frame);
  const auto kind = static_cast<Kind>(body.u8());
  const auto status = static_cast<FileStatus>(body.u8());
  const uint32_t error = body.u32();
  FileReply reply;
  reply.size = body.u64();
  reply.mode = body.u32();
  reply.sha256 = body.text();
  if (kind != Kind::kFileReply || !body.done()) co_return silent();
  if (status != FileStatus::kOk) co_return file_error(status, error);
  co_return std::move(reply);
}

FileStream::Task<Result<FileReply>> FileStream::get(std::string_view path, uint64_t limit) {
  auto request =
      Writer(Kind::kGet).u32(state_->slot->uid).u32(state_->slot->gid).text(path).u64(limit).take();
  if (auto sent = co_await send(std::move(request)); !sent) co_return std::unexpected(sent.error());
  co_return co_await reply();
}

FileStream::Task<Result<std::string>> FileStream::read() {
  auto frame = co_await receive();
  if (!frame) co_return std::unexpected(frame.error());
  Reader body(*frame);
  const auto kind = static_cast<Kind>(body.u8());
  std::string data(body.text());
  if (kind != Kind::kData || !body.done()) co_return silent();
  co_return std::move(data);
}

FileStream::Task<Result<void>> FileStream::begin_put(std::string_view path, uint64_t size,
                                                     std::string_view expected) {
  Writer request(Kind::kPut);
  request.u32(state_->slot->uid).u32(state_->slot->gid).text(path).u64(size).text(expected);
  co_return co_await send(request.take());
}

// The helper may refuse early and hang up; what it said is read by end_put().
FileStream::Task<Result<void>> FileStream::write(std::string_view bytes) {
  while (!bytes.empty() && !state_->broken) {
    const auto part = bytes.substr(0, helper::kMaxData);
    bytes.remove_prefix(part.size());
    auto sent = co_await send(Writer(Kind::kData).text(part).take());
    state_->broken = !sent;
  }
  if (state_->broken) co_return silent();
  co_return Result<void>();
}

FileStream::Task<Result<FileReply>> FileStream::end_put() {
  if (!state_->broken) (void)co_await send(Writer(Kind::kData).text({}).take());
  co_return co_await reply();
}

FileStream::Task<Result<FileReply>> FileStream::remove(std::string_view path) {
  auto request = Writer(Kind::kDelete).u32(state_->slot->uid).u32(state_->slot->gid).text(path).take();
  if (auto sent = co_await send(std::move(request)); !sent) co_return std::unexpected(sent.error());
  co_return co_await reply();
}

}  // namespace nodus::executor
