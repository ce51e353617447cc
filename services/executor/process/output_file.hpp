// The output of one command on the node's disk: frames of (offset, stream, length, bytes), appended by one
// thread, read by any number. Offsets count the bytes of both streams in the order kept. What a crash cut off
// in the middle of a frame is dropped when the file is opened again; the helper still has it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "libs/base/error.hpp"

namespace nodus::executor {

struct OutputFrame {
  int stream = 1;       // 1 stdout, 2 stderr
  uint64_t offset = 0;  // of its first byte
  std::string data;
};

class OutputFile {
 public:
  static Result<std::shared_ptr<OutputFile>> open(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Bytes below end() are skipped: a repeat changes nothing.
  Result<void> append(int stream, uint64_t offset, std::string_view data);
  uint64_t end() const { return end_.load(std::memory_order_acquire); }  // bytes of output
  uint64_t bytes_of(int stream) const { return bytes_[stream - 1].load(std::memory_order_relaxed); }
  uint64_t file_size() const { return size_.load(std::memory_order_acquire); }  // with the frame headers

  // A reader's place: make one with the offset to begin at, and pass it again for the next frame.
  struct Cursor {
    uint64_t offset = 0;
    uint64_t position = 0;  // in the file
  };
  // The next bytes at the cursor, at most one frame; false: there are none yet.
  Result<bool> read(Cursor& cursor, OutputFrame& frame) const;

 private:
  explicit OutputFile(int fd) : fd_(fd) {}
  Result<void> recover();
  const int fd_;
  std::atomic<uint64_t> end_{0}, size_{0}, bytes_[2] = {0, 0};
};

}  // namespace nodus::executor
