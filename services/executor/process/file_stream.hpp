// One file request to the helper, on a connection of its own: bytes pass through in pieces, in constant
// memory, and a slow side holds back the other. For coroutines; one at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/http/unix_stream.hpp"
#include "services/executor/app/ports.hpp"

namespace nodus::executor {

struct FileReply {
  uint64_t size = 0;
  uint32_t mode = 0;
  std::string sha256;  // of a put
};

class FileStream {
 public:
  template <class T = void>
  using Task = boost::asio::awaitable<T>;
  // Errors of all: NotFound, Forbidden, NotAFile, DirectoryNotEmpty, FileTooLarge, SHA256Mismatch, DiskFull,
  // PathInvalid, TooManyRequests; Unavailable/HelperSilent when the Sandbox does not answer in time.
  static Task<Result<std::unique_ptr<FileStream>>> open(const SlotView& slot);

  Task<Result<FileReply>> get(std::string_view path, uint64_t limit);
  Task<Result<std::string>> read();  // after get; "" at the end

  Task<Result<void>> begin_put(std::string_view path, uint64_t size, std::string_view expected_sha256);
  Task<Result<void>> write(std::string_view bytes);
  Task<Result<FileReply>> end_put();

  Task<Result<FileReply>> remove(std::string_view path);

 private:
  FileStream(std::unique_ptr<http::UnixStream> stream, const SlotView& slot)
      : stream_(std::move(stream)), slot_(slot) {}
  Task<Result<void>> send(const std::string& bytes);
  Task<Result<std::string>> receive();
  Task<Result<FileReply>> reply();
  std::unique_ptr<http::UnixStream> stream_;
  const SlotView& slot_;  // outlives the stream
  bool broken_ = false;   // writing failed
};

}  // namespace nodus::executor
