#include "services/executor/process/file_stream.hpp"

#include "services/executor/process/helper_client.hpp"

namespace nodus::executor {
using helper::FileStatus;
using helper::Kind;
using helper::Reader;
using helper::Writer;
namespace {
constexpr Millis kStepTime{55'000};

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
      return fail(Code::kInvalid, "NotAFile",
                  "The path leads to something that is not a regular file; list=true shows a directory.");
    case FileStatus::kNotADirectory:
      return fail(Code::kInvalid, "NotADirectory",
                  "The path needs a directory where there is something else.");
    case FileStatus::kPrecondition:
      return fail(Code::kPreconditionFailed, "PreconditionFailed",
                  "If-Match or If-None-Match does not hold: the file was changed, or is there.");
    case FileStatus::kDigest:
      return fail(Code::kInvalid, "DigestMismatch",
                  "What arrived has another SHA-256 than contentSHA256 says. Send it again.");
    case FileStatus::kNotEmpty:
      return fail(Code::kConflict, "DirectoryNotEmpty", "The directory is not empty.");
    case FileStatus::kTooLarge:
      return fail(Code::kTooLarge, "FileTooLarge",
                  "A file is at most 64 MiB per request; read and write a larger one by parts.");
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

FileStream::Task<Result<std::unique_ptr<FileStream>>> FileStream::adopt(int fd, const SlotView& slot) {
  auto connected = co_await http::UnixStream::adopt(fd, kStepTime);
  if (!connected) co_return silent();
  co_return std::unique_ptr<FileStream>(new FileStream(std::move(*connected), slot));
}

FileStream::Task<Result<std::unique_ptr<FileStream>>> FileStream::open(const SlotView& slot) {
  const int fd = connect_unix(slot.run_socket);
  if (fd < 0) co_return silent();
  auto stream = co_await adopt(fd, slot);
  if (!stream) co_return stream;
  auto hello = Writer(Kind::kHello).u8(helper::kVersion).u8(static_cast<uint8_t>(helper::Role::kFile)).take();
  if (auto sent = co_await (*stream)->send(std::move(hello)); !sent) co_return std::unexpected(sent.error());
  co_return stream;
}

int FileStream::release() {
  return stream_->release();
}

FileStream::Task<void> FileStream::abandon() {
  stream_->end_writing();
  while (co_await stream_->read(1)) {
  }
}

Writer FileStream::begin(Kind kind, std::string_view path) const {
  Writer frame(kind);
  frame.u32(slot_.uid).u32(slot_.gid).text(path);
  return frame;
}

FileStream::Task<Result<void>> FileStream::send(std::string bytes) {
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
  FileReply reply;
  reply.status = static_cast<FileStatus>(body.u8());
  reply.error = body.u32();
  reply.sha256 = body.text();
  reply.info = helper::take_info(body);
  if (kind != Kind::kFileReply || !body.done()) co_return silent();
  if (reply.status != FileStatus::kOk) co_return file_error(reply.status, reply.error);
  co_return std::move(reply);
}

// The helper may refuse early and hang up; what it said is read all the same.
FileStream::Task<Result<FileReply>> FileStream::ask(std::string bytes) {
  if (!broken_) broken_ = !co_await send(std::move(bytes));
  co_return co_await reply();
}

FileStream::Task<Result<FileReply>> FileStream::get(std::string_view path) {
  co_return co_await ask(begin(Kind::kGet, path).take());
}

FileStream::Task<Result<FileReply>> FileStream::read_range(uint64_t offset, uint64_t length, bool digest) {
  co_return co_await ask(Writer(Kind::kRead).u64(offset).u64(length).u8(digest).take());
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

FileStream::Task<Result<void>> FileStream::begin_put(const PutOptions& options) {
  Writer request = begin(Kind::kPut, options.path);
  request.u64(options.most).u8(options.flags).u32(options.mode).u64(static_cast<uint64_t>(options.mtime_ns));
  request.text(options.expected_sha256).text(options.if_match);
  co_return co_await send(request.take());
}

FileStream::Task<Result<void>> FileStream::write(std::string_view bytes) {
  while (!bytes.empty() && !broken_) {
    const auto part = bytes.substr(0, helper::kMaxData);
    bytes.remove_prefix(part.size());
    broken_ = !co_await send(Writer(Kind::kData).text(part).take());
  }
  if (broken_) co_return silent();
  co_return Result<void>();
}

FileStream::Task<Result<FileReply>> FileStream::sync() {
  co_return co_await ask(Writer(Kind::kSync).take());
}

FileStream::Task<Result<FileReply>> FileStream::commit(uint64_t size, std::string_view sha256) {
  co_return co_await ask(Writer(Kind::kCommit).u64(size).text(sha256).take());
}

FileStream::Task<Result<FileReply>> FileStream::remove(std::string_view path, std::string_view if_match) {
  co_return co_await ask(begin(Kind::kDelete, path).text(if_match).take());
}

FileStream::Task<Result<FileReply>> FileStream::stat(std::string_view path, bool follow) {
  co_return co_await ask(begin(Kind::kStat, path).u8(follow).take());
}

FileStream::Task<Result<FileReply>> FileStream::make(const PutOptions& options, std::string_view target) {
  Writer request = begin(Kind::kMake, options.path);
  request.u8(options.flags).u32(options.mode).u64(static_cast<uint64_t>(options.mtime_ns)).text(target);
  co_return co_await ask(request.take());
}

FileStream::Task<Result<FileReply>> FileStream::list(std::string_view path, uint32_t limit,
                                                     std::string_view after) {
  co_return co_await ask(begin(Kind::kList, path).u32(limit).text(after).take());
}

FileStream::Task<Result<FileStream::Page>> FileStream::next_entries() {
  auto frame = co_await receive();
  if (!frame) co_return std::unexpected(frame.error());
  Reader body(*frame);
  const auto kind = static_cast<Kind>(body.u8());
  Page page;
  if (kind == Kind::kData) {
    page.done = true;
    page.more = !body.text().empty();
    if (!body.done()) co_return silent();
    co_return std::move(page);
  }
  while (kind == Kind::kEntries && body.ok() && !body.done()) {
    std::string name(body.text());
    page.entries.emplace_back(std::move(name), helper::take_info(body));
  }
  if (kind != Kind::kEntries || !body.ok()) co_return silent();
  co_return std::move(page);
}

}  // namespace nodus::executor
