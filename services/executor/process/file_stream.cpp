#include "services/executor/process/file_stream.hpp"

#include "services/executor/helper/protocol.hpp"
#include "services/executor/process/helper_client.hpp"

namespace nodus::executor {
using helper::FileStatus;
using helper::Kind;
using helper::Reader;
using helper::Writer;
namespace {
constexpr Millis kStepTime{45'000};

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

FileStream::Task<Result<std::unique_ptr<FileStream>>> FileStream::open(const SlotView& slot) {
  const int fd = connect_unix(slot.run_socket);
  if (fd < 0) co_return silent();
  auto connected = co_await http::UnixStream::adopt(fd, kStepTime);
  if (!connected) co_return silent();
  std::unique_ptr<FileStream> stream(new FileStream(std::move(*connected), slot));
  const auto hello =
      Writer(Kind::kHello).u8(helper::kVersion).u8(static_cast<uint8_t>(helper::Role::kFile)).take();
  if (auto sent = co_await stream->send(hello); !sent) co_return std::unexpected(sent.error());
  co_return std::move(stream);
}

FileStream::Task<Result<void>> FileStream::send(const std::string& bytes) {
  auto sent = co_await stream_->write(bytes);
  if (!sent) co_return silent();
  co_return Result<void>();
}

FileStream::Task<Result<std::string>> FileStream::receive() {
  auto head = co_await stream_->read(4);
  if (!head) co_return silent();
  uint32_t length = 0;
  for (int i = 0; i < 4; ++i)
    length |= static_cast<uint32_t>(static_cast<unsigned char>((*head)[i])) << (8 * i);
  if (length == 0 || length > 2 * helper::kMaxData) co_return silent();
  auto body = co_await stream_->read(length);
  if (!body) co_return silent();
  co_return std::move(*body);
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
  const auto request = Writer(Kind::kGet).u32(slot_.uid).u32(slot_.gid).text(path).u64(limit).take();
  if (auto sent = co_await send(request); !sent) co_return std::unexpected(sent.error());
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
  request.u32(slot_.uid).u32(slot_.gid).text(path).u64(size).text(expected);
  co_return co_await send(request.take());
}

// The helper may refuse early and hang up; what it said is read by end_put().
FileStream::Task<Result<void>> FileStream::write(std::string_view bytes) {
  while (!bytes.empty() && !broken_) {
    const auto part = bytes.substr(0, helper::kMaxData);
    bytes.remove_prefix(part.size());
    auto sent = co_await send(Writer(Kind::kData).text(part).take());
    broken_ = !sent;
  }
  if (broken_) co_return silent();
  co_return Result<void>();
}

FileStream::Task<Result<FileReply>> FileStream::end_put() {
  if (!broken_) (void)co_await send(Writer(Kind::kData).text({}).take());
  co_return co_await reply();
}

FileStream::Task<Result<FileReply>> FileStream::remove(std::string_view path) {
  const auto request = Writer(Kind::kDelete).u32(slot_.uid).u32(slot_.gid).text(path).take();
  if (auto sent = co_await send(request); !sent) co_return std::unexpected(sent.error());
  co_return co_await reply();
}

}  // namespace nodus::executor
