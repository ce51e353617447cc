// What commands wrote, kept off the node: readable after a stop, a wake and the loss of a machine.
// Retention: a command's output goes with its Sandbox, after a configured age, or when its Sandbox's outputs
// exceed their quota (then the oldest of commands that have ended go first).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/base/ids.hpp"

namespace nodus::lifecycle {

struct OutputFrame {
  int stream = 1;       // 1 stdout, 2 stderr
  uint64_t offset = 0;  // bytes of both streams before it, in the order kept
  std::string data;
};

struct OutputKey {
  SandboxUid sandbox;
  ProcessUid process;
};

// A reader's place: make one with the offset to begin at, and pass it again for what follows.
struct OutputCursor {
  uint64_t offset = 0;
  uint64_t position = 0;  // the store's own
};

struct OutputSizes {
  uint64_t end = 0;  // offset after the last byte that is kept
  uint64_t stdout_bytes = 0;
  uint64_t stderr_bytes = 0;
};

struct OutputLimits {
  uint64_t process_bytes = 64ull << 20;     // of one command, both streams; spec 001
  uint64_t sandbox_bytes = 1ull << 30;      // of all commands of a Sandbox, as files
  Micros age = std::chrono::hours(7 * 24);  // since the last write
};

// Thread-safe. Errors of all: Unavailable/OutputStoreFailed (try again: the disk, or its being full).
class OutputStore {
 public:
  virtual ~OutputStore() = default;

  // Keeps the frames that go on from `from`, durably when it returns, and answers where they end then. When
  // what is kept does not end at `from`, nothing is taken. Conflict/OutputSealed; TooLarge/OutputTooLarge:
  // more than a Process may keep, nothing was taken.
  virtual Result<uint64_t> append(const OutputKey& key, uint64_t from,
                                  std::span<const OutputFrame> frames) = 0;
  // The Process has ended: nothing is added any more, and its output may go when room is needed.
  virtual Result<void> seal(const OutputKey& key) = 0;
  // The next frames at the cursor, about `most` bytes; none: the end of what is kept.
  virtual Result<std::vector<OutputFrame>> read(const OutputKey& key, OutputCursor& cursor, size_t most) = 0;
  virtual Result<OutputSizes> sizes(const OutputKey& key) = 0;  // zeros: nothing is kept
  virtual Result<void> remove(const SandboxUid& sandbox) = 0;
  // Removes what is older than its age. Answers how many.
  virtual Result<int> sweep(Instant now) = 0;
};

}  // namespace nodus::lifecycle
