// What nodusd and the helper say to each other over /.run/helper.sock. A frame is a little-endian u32 length
// of what follows, one byte kind, and the body. Every length is bounded; a frame that breaks a bound ends the
// connection. One library-free header, shared by both sides.
//
// A connection begins with hello{version, role} (7 bytes). Role kControl: the helper answers welcome, and the
// newest control connection replaces the one before. Role kFile: one file operation, then the end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nodus::helper {

inline constexpr uint8_t kVersion = 2;
inline constexpr uint32_t kMaxFrame = 4u << 20;         // a spawn with its environment and stdin
inline constexpr uint32_t kMaxData = 64u << 10;         // bytes in an output or data frame
inline constexpr size_t kMaxCommands = 1024;            // not yet forgotten, in one Sandbox
inline constexpr size_t kMaxArguments = 1024;           // and 64 KiB in total, checked by the node
inline constexpr size_t kMaxEnvironment = 4096;         // entries, the image's included
inline constexpr size_t kKeptOutput = 256u << 10;       // a command's unacknowledged bytes, both streams
inline constexpr size_t kKeptByAll = 16u << 20;         // of all commands: it is the Sandbox's memory
inline constexpr size_t kStdinWindow = 32u << 10;       // a command's stdin that it has not read yet
inline constexpr size_t kMaxFileRequests = 64;          // at once; the next one is answered kBusy
inline constexpr uint64_t kUnknownSize = ~uint64_t{0};  // of a put whose size nobody said

enum class Role : uint8_t { kControl = 1, kFile = 2 };

enum class Kind : uint8_t {
  kHello = 1,  // u8 version, u8 role
  // nodusd → helper, control
  kSpawn = 2,    // text uid, u32 user, u32 group, texts argv, texts env, text cwd, text stdin, u8 SpawnFlags,
                 // u32 rows, u32 columns
                 // once per uid: a repeat changes nothing. Output flows from offset 0.
  kAttach = 3,   // text uid, u64 offset: send output again from there (not below what was acknowledged)
  kAck = 4,      // text uid, u64 offset: the bytes below are safe and may be dropped
  kForget = 5,   // text uid: its end is recorded
  kKill = 6,     // text uid, u8 signal: to the command and everything that descends from it
  kKillAll = 7,  // u64 tag: SIGKILL to all but the helper → kCounted; repeat until 0
  kCount = 8,    // u64 tag → kCounted
  kStdin = 9,    // text uid, u64 offset, text data, u8 last: more stdin, counted from the first byte of the
                 // spawn's; what is below the offset that the helper has is a repeat. At most kStdinWindow
                 // beyond kTaken. `last` ends it; a terminal is sent its end-of-file character.
  kResize = 10,  // text uid, u32 rows, u32 columns
  kSignal = 11,  // text uid, u8 signal: to the command's process group; in a terminal SIGINT, SIGQUIT and
                 // SIGTSTP are typed when it takes them, so that they reach who is in the foreground
  // helper → nodusd, control
  kWelcome = 32,  // u8 version, text instance, u32 n, n × {text uid, u64 base, u64 end, u64 stdin end}
  kStarted = 33,  // text uid, u32 pid, u64 age_ms
  kOutput = 34,   // text uid, u8 stream (1, 2), u64 offset (of both streams together), text data
  kEnded = 35,    // text uid, u8 how, u32 value, u8 stage, u64 end offset, u64 age_ms
  kCounted = 36,  // u64 tag, u32 live processes other than the helper and shells that wait at a terminal;
                  // then, but not from older helpers, of one of them: u32 pid, text name (any bytes)
  kTaken = 37,    // text uid, u64 offset: the stdin below it went to the command
  // file connection: see file_protocol.hpp
  kGet = 64,
  kPut = 65,
  kDelete = 66,
  kStat = 67,
  kData = 68,
  kFileReply = 69,
  kList = 70,
  kMake = 71,
  kRead = 72,
  kSync = 73,
  kCommit = 74,
  kEntries = 75,
};

enum SpawnFlags : uint8_t { kTerminal = 1, kStdinOpen = 2 };  // kStdinOpen: more stdin comes by kStdin

enum class How : uint8_t { kExited = 0, kSignaled = 1, kStartFailed = 2 };  // value: code, signal, errno
enum class Stage : uint8_t {
  kNone,
  kLimit,
  kFork,
  kUser,
  kDirectory,
  kExec,
  kTerminal
};  // of a failed start

class Writer {
 public:
  explicit Writer(Kind kind) : bytes_(4, '\0') { u8(static_cast<uint8_t>(kind)); }
  Writer& u8(uint8_t value) { return number(value, 1); }
  Writer& u32(uint32_t value) { return number(value, 4); }
  Writer& u64(uint64_t value) { return number(value, 8); }
  Writer& text(std::string_view value) {
    u32(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  Writer& texts(const std::vector<std::string>& values) {
    u32(static_cast<uint32_t>(values.size()));
    for (const auto& value : values) text(value);
    return *this;
  }
  std::string take() {
    const auto length = static_cast<uint32_t>(bytes_.size() - 4);
    for (int i = 0; i < 4; ++i) bytes_[i] = static_cast<char>(length >> (8 * i));
    return std::move(bytes_);
  }

 private:
  Writer& number(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  std::string bytes_;
};

// Reads a frame's body. After a fault every read gives zero or empty and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view body) : rest_(body) {}
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  std::string_view text() {
    const uint32_t size = u32();
    if (!ok_ || size > rest_.size()) return ok_ = false, std::string_view{};
    auto value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }
  std::vector<std::string> texts(size_t most) {
    std::vector<std::string> values;
    const uint32_t count = u32();
    if (count > most) ok_ = false;
    for (uint32_t i = 0; ok_ && i < count; ++i) values.emplace_back(text());
    return values;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  uint64_t number(int count) {
    if (!ok_ || rest_.size() < static_cast<size_t>(count)) return ok_ = false, 0;
    uint64_t value = 0;
    for (int i = 0; i < count; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    rest_.remove_prefix(count);
    return value;
  }
  std::string_view rest_;
  bool ok_ = true;
};

// Length of the frame at the start of `bytes` (kind and body, without the four length bytes); 0: not all
// there yet; -1: not a frame.
inline int64_t frame_length(std::string_view bytes) {
  if (bytes.size() < 4) return 0;
  uint32_t length = 0;
  for (int i = 0; i < 4; ++i)
    length |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  if (length == 0 || length > kMaxFrame) return -1;
  return bytes.size() - 4 < length ? 0 : static_cast<int64_t>(length);
}

}  // namespace nodus::helper
