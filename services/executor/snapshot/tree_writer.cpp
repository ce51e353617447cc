#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <vector>

#include "services/executor/snapshot/tree.hpp"

namespace nodus::executor {
namespace {
constexpr size_t kBuffer = 256 * 1024;
constexpr size_t kNodePrice = 48;  // of an entry of a map, beside its value

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

size_t size_of(const std::string& kept) {
  return sizeof kept + kept.capacity();
}

// Adds to `kept` what the names take.
Result<std::vector<std::string>> names_in(int directory, size_t& kept) {
  const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = copy < 0 ? nullptr : fdopendir(copy);
  if (!stream) return snapshot_errno("Cannot list a directory");
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(stream, closedir);
  std::vector<std::string> names;
  while (const dirent* item = readdir(stream)) {
    const std::string_view name = item->d_name;
    if (name == "." || name == "..") continue;
    kept += size_of(names.emplace_back(name));
    if (kept > kMostKept) return snapshot_refused("The names of the Sandbox's files take too much memory.");
  }
  std::sort(names.begin(), names.end());
  return names;
}

// By /proc, since links and whiteouts have attributes too and cannot be opened for reading.
Result<void> read_attributes(int parent, const std::string& name, Entry& entry) {
  const std::string path = "/proc/self/fd/" + std::to_string(parent) + "/" + name;
  std::vector<char> list(64 * 1024);
  size_t total = 0;
  const ssize_t size = llistxattr(path.c_str(), list.data(), list.size());
  if (size < 0) return errno == ENOTSUP ? Result<void>() : snapshot_errno("Cannot list extended attributes");
  for (const char* at = list.data(); at < list.data() + size; at += std::string_view(at).size() + 1) {
    if (std::string_view(at) == "trusted.overlay.metacopy")
      return snapshot_refused("The disk was mounted with metacopy: its files are not whole.");
    if (!attribute_allowed(at)) continue;
    std::string value(kMostAttribute, '\0');
    const ssize_t got = lgetxattr(path.c_str(), at, value.data(), value.size());
    if (got < 0) return snapshot_errno("Cannot read an extended attribute");
    value.resize(got);
    total += value.size() + std::string_view(at).size();
    if (total > kMostAttributes)
      return snapshot_refused("A file in the Sandbox has more than 256 KiB of extended attributes.");
    entry.attributes[at] = std::move(value);
  }
  return {};
}

// The file's data extents; holes between them closed, the narrowest first, until they are few enough.
Result<std::vector<Extent>> extents_of(int file, int64_t size) {
  std::vector<Extent> extents;
  for (int64_t gap = 4096; gap > 0; gap *= 8) {
    extents.clear();
    for (int64_t at = 0; at < size && extents.size() <= kMostExtents;) {
      const off_t begin = lseek(file, at, SEEK_DATA);
      if (begin < 0 && errno == ENXIO) break;
      const off_t end = begin < 0 ? begin : lseek(file, begin, SEEK_HOLE);
      if (end < 0) return snapshot_errno("Cannot find a file's data");
      const int64_t length = std::min<int64_t>(end, size) - begin;
      if (length <= 0) break;
      if (!extents.empty() && begin - extents.back().offset - extents.back().length < gap)
        extents.back().length = begin + length - extents.back().offset;
      else
        extents.push_back({begin, length});
      at = begin + length;
    }
    if (extents.size() <= kMostExtents) return extents;
  }
  return snapshot_refused("A file has too many holes.");
}

// A file that a write which was cut off left behind: services/executor/helper/file_put.cpp names them
// .nodus-<pid>-<hex>-<n>. Nobody else's names look like that (docs/files.md).
bool is_leftover(std::string_view name) {
  constexpr std::string_view kBegin = ".nodus-", kDigits = "0123456789", kHex = "0123456789abcdef";
  if (!name.starts_with(kBegin)) return false;
  name.remove_prefix(kBegin.size());
  const auto part = [&](std::string_view characters) {
    const size_t length = std::min(name.find_first_not_of(characters), name.size());
    name.remove_prefix(length);
    return length > 0;
  };
  const auto dash = [&] {
    const bool there = name.starts_with('-');
    if (there) name.remove_prefix(1);
    return there;
  };
  return part(kDigits) && dash() && part(kHex) && dash() && part(kDigits) && name.empty();
}

class TreeWriter {
 public:
  TreeWriter(ArchiveWriter& archive, int64_t data_limit) : archive_(archive), data_limit_(data_limit) {}
  Result<void> directory(int fd, const std::string& path, size_t depth);
  Result<void> emit(const Entry& entry);
  TreeSummary summary() {
    summary_.digest = digest_.hex();
    return summary_;
  }

 private:
  Result<void> child(int parent, const std::string& name, const std::string& path, size_t depth);
  Result<void> regular(int parent, const std::string& name, const struct stat& info, Entry& entry);
  ArchiveWriter& archive_;
  const int64_t data_limit_;
  TreeSummary summary_;
  Digest digest_;
  std::map<std::pair<dev_t, ino_t>, std::string> linked_;  // first path of files with several names
  size_t kept_ = 0;  // bytes of the names of the open directories and of linked_
  std::vector<char> buffer_ = std::vector<char>(kBuffer);
};

void fill(const struct stat& info, Entry& entry) {
  entry.type = info.st_mode & S_IFMT;
  entry.mode = info.st_mode & 01777;
  entry.uid = info.st_uid;
  entry.gid = info.st_gid;
  entry.mtime_s = info.st_mtim.tv_sec;
  entry.mtime_ns = info.st_mtim.tv_nsec;
}

Result<void> TreeWriter::emit(const Entry& entry) {
  if (++summary_.entries > kMostEntries)
    return snapshot_refused("The Sandbox holds more than 1,000,000 files.");
  if (entry.path.size() > kMostPath)
    return snapshot_refused("A path in the Sandbox is longer than 4,095 bytes.");
  digest_.add(entry);
  return archive_.entry(entry);
}

Result<void> TreeWriter::directory(int fd, const std::string& path, size_t depth) {
  if (depth > kMostDepth) return snapshot_refused("The Sandbox has directories nested more than 256 deep.");
  const size_t kept_before = kept_;
  auto names = names_in(fd, kept_);
  if (!names) return std::unexpected(names.error());
  const size_t names_kept = kept_ - kept_before;
  for (const auto& name : *names)
    if (auto done = child(fd, name, path.empty() ? name : path + "/" + name, depth); !done) return done;
  kept_ -= names_kept;
  return {};
}

Result<void> TreeWriter::child(int parent, const std::string& name, const std::string& path, size_t depth) {
  struct stat info{};
  if (fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0)
    return snapshot_errno("Cannot look at a file");
  const bool whiteout = S_ISCHR(info.st_mode) && info.st_rdev == makedev(0, 0);
  if (S_ISSOCK(info.st_mode) || S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && !whiteout)) return {};
  if ((S_ISREG(info.st_mode) || S_ISLNK(info.st_mode)) && is_leftover(name)) return {};
  Entry entry;
  entry.path = path;
  fill(info, entry);
  if (!S_ISDIR(info.st_mode) && info.st_nlink > 1) {
    const auto [first, fresh] = linked_.try_emplace({info.st_dev, info.st_ino}, path);
    // Only regular files are linked again; another name of a whiteout or a link is as good as a new one.
    if (fresh) kept_ += sizeof(*first) + kNodePrice + first->second.capacity();
    if (kept_ > kMostKept) return snapshot_refused("The Sandbox has too many files with several names.");
    if (!fresh && S_ISREG(info.st_mode)) {
      entry.hard_link = first->second;
      return emit(entry);
    }
  }
  if (auto read = read_attributes(parent, name, entry); !read) return read;
  if (S_ISREG(info.st_mode)) return regular(parent, name, info, entry);
  if (S_ISLNK(info.st_mode)) {
    char target[kMostPath + 1];
    const ssize_t size = readlinkat(parent, name.c_str(), target, sizeof target);
    if (size <= 0) return snapshot_errno("Cannot read a symbolic link");
    entry.link.assign(target, size);
  }
  if (auto written = emit(entry); !written || !S_ISDIR(info.st_mode)) return written;
  const Fd inner(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inner) return snapshot_errno("Cannot open a directory");
  return directory(inner.get(), path, depth + 1);
}

Result<void> TreeWriter::regular(int parent, const std::string& name, const struct stat& info, Entry& entry) {
  const Fd file(openat(parent, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC));
  if (!file) return snapshot_errno("Cannot open a file");
  entry.size = info.st_size;
  auto extents = extents_of(file.get(), info.st_size);
  if (!extents) return std::unexpected(extents.error());
  entry.extents = std::move(*extents);
  summary_.data_bytes += entry.data_bytes();
  if (summary_.data_bytes > data_limit_)
    return snapshot_refused("The Sandbox holds more data than its disk.");
  if (auto written = emit(entry); !written) return written;
  for (const auto& extent : entry.extents) {
    for (int64_t done = 0; done < extent.length;) {
      const size_t want = std::min<int64_t>(extent.length - done, buffer_.size());
      const ssize_t got = pread(file.get(), buffer_.data(), want, extent.offset + done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return snapshot_fault("A file changed while it was saved.");
      const std::string_view part(buffer_.data(), got);
      digest_.add(part);
      if (auto written = archive_.data(part); !written) return written;
      done += got;
    }
  }
  return {};
}
}  // namespace

Result<TreeSummary> write_tree(int root, ArchiveWriter& archive, int64_t data_limit) {
  TreeWriter writer(archive, data_limit);
  struct stat info{};
  if (fstat(root, &info) < 0) return snapshot_errno("Cannot look at the Sandbox's files");
  Entry top;
  fill(info, top);
  auto done = read_attributes(root, ".", top);
  if (done) done = writer.emit(top);
  if (done) done = writer.directory(root, "", 1);
  if (!done) return std::unexpected(done.error());
  return writer.summary();
}

Result<int64_t> capacity_of(int directory) {
  struct statvfs info{};
  if (fstatvfs(directory, &info) < 0) return snapshot_errno("Cannot measure the disk");
  return static_cast<int64_t>(info.f_blocks) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace nodus::executor
