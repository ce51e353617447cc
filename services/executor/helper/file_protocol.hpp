// The file side of protocol.hpp: one connection is one operation in a worker of its own.
//
// A string of bytes is `text`; every operation begins with u32 user, u32 group, text path.
//   kGet                → kFileReply; then any number of kRead{u64 offset, u64 length, u8 digest}
//                         → kFileReply (with the range's SHA-256 if asked), kData…, kData ""
//   kPut, u64 most, u8 flags, u32 mode, u64 mtime_ns, text expected_sha256, text if_match
//                         kData…; kSync → kFileReply (what came so far is on the disk);
//                         kCommit{u64 size, text sha256} → kFileReply. A refusal may come at any time and
//                         ends it. When the connection ends without kCommit nothing was written.
//   kDelete, text if_match; kStat, u8 follow → kFileReply
//   kMake, u8 flags, u32 mode, u64 mtime_ns, text link_target (empty: a directory) → kFileReply
//   kList, u32 limit, text after → kFileReply, kEntries{n × (text name, info)}…, kData "more" or kData ""
#pragma once

#include "services/executor/helper/protocol.hpp"

namespace nodus::helper {

enum class FileStatus : uint8_t {
  kOk,
  kNotFound,
  kForbidden,      // permission of the Sandbox's user, or a path that is nobody's business
  kNotAFile,       // a directory, device, pipe or socket where a file is wanted
  kNotEmpty,       // a directory with entries
  kTooLarge,       // above the limit
  kMismatch,       // another content than the caller expected
  kNoSpace,        // disk or inodes full
  kBadPath,        // not absolute, NUL, too long, too many links
  kBusy,           // too many requests at once, or the file stays locked
  kInterrupted,    // the caller sent less than it said
  kFailed,         // anything else; errno says
  kNotADirectory,  // something else where a directory is wanted
  kPrecondition,   // If-Match, If-None-Match
  kDigest,         // what arrived has another SHA-256 than the caller said
};

enum class FileType : uint8_t { kFile, kDirectory, kSymlink, kFifo, kSocket, kDevice };

struct FileInfo {
  FileType type = FileType::kFile;
  uint64_t size = 0;
  uint32_t mode = 0;  // permission bits, with set-id and sticky
  int64_t mtime_ns = 0;
  std::string etag;    // quoted; another one after any change of content or attributes
  std::string target;  // of a symbolic link
};

struct FileReply {
  FileStatus status = FileStatus::kOk;
  uint32_t error = 0;  // errno
  std::string sha256;
  FileInfo info;
};

// Flags of kPut and kMake.
inline constexpr uint8_t kModeIfNew = 1;     // `mode` for what did not exist
inline constexpr uint8_t kModeAlways = 2;    // and for what did
inline constexpr uint8_t kSetMtime = 4;      //
inline constexpr uint8_t kMustNotExist = 8;  // If-None-Match: *

// The largest file whose content is read to compare it with expected_sha256.
inline constexpr uint64_t kMaxCompared = 1ull << 30;

inline Writer& put_info(Writer& to, const FileInfo& info) {
  return to.u8(static_cast<uint8_t>(info.type))
      .u64(info.size)
      .u32(info.mode)
      .u64(static_cast<uint64_t>(info.mtime_ns))
      .text(info.etag)
      .text(info.target);
}

inline FileInfo take_info(Reader& from) {
  FileInfo info;
  info.type = static_cast<FileType>(from.u8());
  info.size = from.u64();
  info.mode = from.u32();
  info.mtime_ns = static_cast<int64_t>(from.u64());
  info.etag = from.text();
  info.target = from.text();
  return info;
}

inline std::string reply_frame(const FileReply& reply) {
  Writer frame(Kind::kFileReply);
  frame.u8(static_cast<uint8_t>(reply.status)).u32(reply.error).text(reply.sha256);
  return put_info(frame, reply.info).take();
}

// Whether one of the entity tags of a header such as If-Match is `etag`. Only strong ones ("…") count.
inline bool names_etag(std::string_view list, std::string_view etag) {
  if (list == "*") return true;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    auto item = list.substr(0, comma);
    list = comma == list.npos ? std::string_view{} : list.substr(comma + 1);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (item == etag) return true;
  }
  return false;
}

}  // namespace nodus::helper
