// One file operation with a worker of the helper, on a connection of its own: bytes pass through in pieces,
// in constant memory, and a slow side holds back the other. For coroutines; one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/http/unix_stream.hpp"
#include "services/executor/app/ports.hpp"
#include "services/executor/helper/file_protocol.hpp"

namespace nodus::executor {

using helper::FileInfo;
using helper::FileReply;

struct PutOptions {
  std::string path;
  uint64_t most = 0;  // bytes
  uint8_t flags = 0;  // helper::kModeIfNew …
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  std::string expected_sha256;  // of what is replaced; empty: anything
  std::string if_match;         // entity tags; empty: anything
};

class FileStream {
 public:
  template <class T = void>
  using Task = boost::asio::awaitable<T>;
  using Entry = std::pair<std::string, FileInfo>;

  // Errors of all: NotFound, Forbidden, NotAFile, NotADirectory, DirectoryNotEmpty, FileTooLarge,
  // SHA256Mismatch, PreconditionFailed, DigestMismatch, DiskFull, PathInvalid, TooManyRequests;
  // Unavailable/HelperSilent when the Sandbox does not answer in time.
  static Task<Result<std::unique_ptr<FileStream>>> open(const SlotView& slot);
  // Goes on with a connection that release() gave.
  static Task<Result<std::unique_ptr<FileStream>>> adopt(int fd, const SlotView& slot);
  // Gives an upload up; returns when the worker has removed its file.
  Task<void> abandon();
  int release();  // the descriptor, between two operations; the stream is of no use afterwards

  Task<Result<FileReply>> get(std::string_view path);
  // After get. A range inside the size; `digest` computes its SHA-256 before the first byte.
  Task<Result<FileReply>> read_range(uint64_t offset, uint64_t length, bool digest);
  Task<Result<std::string>> read();  // "" at the end

  Task<Result<void>> begin_put(const PutOptions& options);
  Task<Result<void>> write(std::string_view bytes);
  Task<Result<FileReply>> sync();  // what was written is on the disk
  // `sha256`: refused unless the content has it; empty: not looked at.
  Task<Result<FileReply>> commit(uint64_t size, std::string_view sha256);

  Task<Result<FileReply>> remove(std::string_view path, std::string_view if_match);
  Task<Result<FileReply>> stat(std::string_view path, bool follow);
  Task<Result<FileReply>> make(const PutOptions& options, std::string_view link_target);

  Task<Result<FileReply>> list(std::string_view path, uint32_t limit, std::string_view after);
  struct Page {
    std::vector<Entry> entries;
    bool done = false;
    bool more = false;  // with done: there are entries after the last one
  };
  Task<Result<Page>> next_entries();

 private:
  FileStream(std::unique_ptr<http::UnixStream> stream, const SlotView& slot)
      : stream_(std::move(stream)), slot_(slot) {}
  helper::Writer begin(helper::Kind kind, std::string_view path) const;
  Task<Result<void>> send(std::string bytes);
  Task<Result<std::string>> receive();
  Task<Result<FileReply>> reply();
  Task<Result<FileReply>> ask(std::string bytes);  // sends, then reads what came of it

  std::unique_ptr<http::UnixStream> stream_;
  const SlotView& slot_;  // outlives the stream
  bool broken_ = false;   // writing failed
};

}  // namespace nodus::executor
