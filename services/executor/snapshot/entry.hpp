// One entry of a snapshot, between the file system and the archive. The owner of libarchive: a snapshot is a
// pax tar, compressed with zstd -1. Regular files are stored as their data extents, one after the other; a
// file with holes says where they belong in an attribute of its own, so that a terabyte of holes costs
// nothing.
#pragma once

#include <openssl/evp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/error.hpp"

struct archive;

namespace nodus::executor {

inline constexpr int64_t kMostEntries = 1'000'000;
inline constexpr size_t kMostDepth = 256;
inline constexpr size_t kMostExtents = 8'192;  // of one file
inline constexpr size_t kMostPath = 4095;
inline constexpr size_t kMostAttribute = 64 * 1024;
inline constexpr size_t kMostAttributes = 256 * 1024;  // of one entry, names and values
inline constexpr size_t kMostKept = 64 << 20;          // bytes of names that a save keeps in memory at once

struct Extent {
  int64_t offset = 0;
  int64_t length = 0;
  bool operator==(const Extent&) const = default;
};

struct Entry {
  std::string path;  // relative, "" for the tree's root
  mode_t type = 0;   // S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO; S_IFCHR: a whiteout
  mode_t mode = 0;   // 0 to 01777: set-id bits do not exist here
  int64_t uid = 0, gid = 0;
  int64_t mtime_s = 0, mtime_ns = 0;
  int64_t size = 0;                               // apparent, of a regular file
  std::vector<Extent> extents;                    // where its data is; ascending
  std::string link;                               // target of a symbolic link
  std::string hard_link;                          // path of an earlier entry that is the same file
  std::map<std::string, std::string> attributes;  // extended, of the allowed names
  int64_t data_bytes() const;
};

// user.* but overlayfs' own, and trusted.overlay.{opaque,redirect}: never security.*, never ACLs.
bool attribute_allowed(std::string_view name);

class Digest {
 public:
  Digest();
  ~Digest();
  void add(std::string_view bytes);
  void add(const Entry& entry);
  std::string hex();

 private:
  EVP_MD_CTX* context_;
};

std::unexpected<Error> snapshot_fault(std::string message);
std::unexpected<Error> snapshot_refused(std::string message);  // kCannotBeSaved: a repeat fails as well
std::unexpected<Error> snapshot_errno(const std::string& what);

// Writes an archive to a file descriptor, hashing what it writes.
class ArchiveWriter {
 public:
  explicit ArchiveWriter(int fd);
  ~ArchiveWriter();
  Result<void> begin();
  Result<void> entry(const Entry& entry);  // then exactly data_bytes() of data
  Result<void> data(std::string_view bytes);
  Result<void> end();
  std::string sha256() { return file_digest_.hex(); }  // after end()
  int64_t size() const { return size_; }

 private:
  static ssize_t write_part(archive*, void* self, const void* data, size_t size);
  Result<void> fault(const char* what);
  const int fd_;
  archive* archive_;
  Digest file_digest_;
  int64_t size_ = 0;
};

// Reads an archive from a file descriptor; hostile input is expected.
class ArchiveReader {
 public:
  explicit ArchiveReader(int fd);
  ~ArchiveReader();
  Result<void> begin();
  Result<bool> next(Entry& entry);                   // false: the end
  bool interrupted() const { return interrupted_; }  // the file could not be read: it may be sound
  // The data of the entry just read, in pieces; false from `sink` stops with an error. At most `limit` bytes.
  Result<void> data(int64_t limit, const std::function<Result<void>(std::string_view)>& sink);

 private:
  static ssize_t read_part(archive*, void* self, const void** data);
  Result<void> fault(const char* what);
  const int fd_;
  archive* archive_;
  std::vector<char> buffer_;
  bool interrupted_ = false;
};

}  // namespace nodus::executor
