#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "services/executor/snapshot/tree.hpp"

namespace nodus::executor {
namespace {
constexpr int kRetries = 32;

// Every component of a path: not empty, not "." or "..", no NUL, not too long.
bool sound_path(std::string_view path) {
  if (path.empty() || path.size() > kMostPath || path.front() == '/' || path.find('\0') != path.npos)
    return false;
  size_t depth = 0;
  while (true) {
    const size_t slash = path.find('/');
    const auto part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > 255 || ++depth > kMostDepth)
      return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::pair<std::string, std::string> split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

int open_beneath(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  for (int i = 0; i < kRetries; ++i) {
    const long fd = syscall(SYS_openat2, root, path.empty() ? "." : path.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) return static_cast<int>(fd);
  }
  return -1;
}

// A directory whose time is set when all in it is there.
struct OpenDirectory {
  std::string path;
  int64_t mtime_s = 0, mtime_ns = 0;
};

bool is_inside(const std::string& path, const std::string& directory) {
  return directory.empty() ||
         (path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/');
}

class TreeReader {
 public:
  TreeReader(int root, ArchiveReader& archive, int64_t data_limit)
      : root_(root), archive_(archive), data_limit_(data_limit) {}
  ~TreeReader() {
    if (parent_ >= 0) close(parent_);
  }
  Result<void> run();

 private:
  Result<void> unpack(const Entry& entry);
  Result<int> parent_of(const std::string& path);  // stays open until the next call
  Result<void> hard_link(int parent, const std::string& name, const Entry& entry);
  Result<void> regular(int parent, const std::string& name, const Entry& entry);
  Result<void> finish(int parent, const std::string& name, const Entry& entry);
  Result<void> leave_directories(const std::string* next);
  const int root_;
  ArchiveReader& archive_;
  const int64_t data_limit_;
  int64_t entries_ = 0, data_bytes_ = 0;
  std::string parent_path_;
  int parent_ = -1;
  std::vector<OpenDirectory> directories_;  // each inside the one before; at most kMostDepth and the root
};

Result<int> TreeReader::parent_of(const std::string& path) {
  if (parent_ >= 0 && path == parent_path_) return parent_;
  const int fd = open_beneath(root_, path);
  if (fd < 0) return snapshot_errno("An entry's directory cannot be opened");
  if (parent_ >= 0) close(parent_);
  parent_ = fd;
  parent_path_ = path;
  return fd;
}

Result<void> TreeReader::hard_link(int parent, const std::string& name, const Entry& entry) {
  if (!sound_path(entry.hard_link)) return snapshot_fault("A hard link leads out of the snapshot.");
  const auto [directory, target] = split(entry.hard_link);
  const int from = open_beneath(root_, directory);
  if (from < 0) return snapshot_errno("A hard link's target cannot be opened");
  struct stat info{};
  const bool regular =
      fstatat(from, target.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
  const bool linked = regular && linkat(from, target.c_str(), parent, name.c_str(), 0) == 0;
  const int error = errno;
  close(from);
  errno = error;
  if (!regular) return snapshot_fault("A hard link leads to something that is no file.");
  return linked ? Result<void>() : snapshot_errno("Cannot make a hard link");
}

Result<void> TreeReader::regular(int parent, const std::string& name, const Entry& entry) {
  const int fd = openat(parent, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return snapshot_errno("Cannot make a file");
  const int64_t stored = entry.data_bytes();
  data_bytes_ += stored;
  size_t extent = 0;
  int64_t done = 0, total = 0;
  Result<void> result;
  if (data_bytes_ > data_limit_) result = snapshot_fault("A snapshot holds more data than the disk.");
  if (result)
    result = archive_.data(stored, [&](std::string_view part) -> Result<void> {
      total += static_cast<int64_t>(part.size());
      while (!part.empty()) {
        const Extent& to = entry.extents[extent];
        const size_t want = std::min<int64_t>(to.length - done, part.size());
        const ssize_t put = pwrite(fd, part.data(), want, to.offset + done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return snapshot_errno("Cannot write a file");
        part.remove_prefix(put);
        done += put;
        if (done == to.length) ++extent, done = 0;
      }
      return {};
    });
  if (result && total != stored) result = snapshot_fault("A file in a snapshot is shorter than it says.");
  if (result && ftruncate(fd, entry.size) < 0) result = snapshot_errno("Cannot size a file");
  if (close(fd) < 0 && result) result = snapshot_errno("Cannot write a file");
  return result;
}

// Owner, mode, attributes and times of what was just made; never through a link.
Result<void> TreeReader::finish(int parent, const std::string& name, const Entry& entry) {
  if (fchownat(parent, name.c_str(), static_cast<uid_t>(entry.uid), static_cast<gid_t>(entry.gid),
               AT_SYMLINK_NOFOLLOW) < 0)
    return snapshot_errno("Cannot set an owner");
  if (entry.type != S_IFLNK && fchmodat(parent, name.c_str(), entry.mode & 01777, 0) < 0)
    return snapshot_errno("Cannot set a mode");
  const std::string path = "/proc/self/fd/" + std::to_string(parent) + "/" + name;
  for (const auto& [key, value] : entry.attributes)
    if (attribute_allowed(key) && lsetxattr(path.c_str(), key.c_str(), value.data(), value.size(), 0) < 0)
      return snapshot_errno("Cannot set an extended attribute");
  const timespec times[2] = {{entry.mtime_s, static_cast<long>(entry.mtime_ns)},
                             {entry.mtime_s, static_cast<long>(entry.mtime_ns)}};
  if (utimensat(parent, name.c_str(), times, AT_SYMLINK_NOFOLLOW) < 0)
    return snapshot_errno("Cannot set a time");
  return {};
}

Result<void> TreeReader::unpack(const Entry& entry) {
  if (entry.path.empty()) {
    if (entry.type != S_IFDIR || entries_ != 1) return snapshot_fault("A snapshot's root is no directory.");
    directories_.push_back({"", entry.mtime_s, entry.mtime_ns});
    return finish(root_, ".", entry);
  }
  if (!sound_path(entry.path)) return snapshot_fault("A snapshot has a path that leads out of it.");
  const auto [directory, name] = split(entry.path);
  auto parent = parent_of(directory);
  if (!parent) return std::unexpected(parent.error());
  if (!entry.hard_link.empty()) return hard_link(*parent, name, entry);
  Result<void> made;
  switch (entry.type) {
    case S_IFDIR:
      if (mkdirat(*parent, name.c_str(), 0700) < 0) return snapshot_errno("Cannot make a directory");
      directories_.push_back({entry.path, entry.mtime_s, entry.mtime_ns});
      break;
    case S_IFREG:
      made = regular(*parent, name, entry);
      break;
    case S_IFLNK:
      if (symlinkat(entry.link.c_str(), *parent, name.c_str()) < 0)
        made = snapshot_errno("Cannot make a link");
      break;
    case S_IFIFO:
    case S_IFCHR:
      if (mknodat(*parent, name.c_str(), entry.type, makedev(0, 0)) < 0)
        made = snapshot_errno("Cannot make a node");
      break;
    default:
      made = snapshot_fault("An entry of a kind that snapshots do not hold.");
  }
  return made ? finish(*parent, name, entry) : made;
}

// Sets the times of the directories that `next` lies outside of; without it, of all.
Result<void> TreeReader::leave_directories(const std::string* next) {
  for (; !directories_.empty(); directories_.pop_back()) {
    const OpenDirectory& left = directories_.back();
    if (next && is_inside(*next, left.path)) break;
    const auto [directory, name] = split(left.path);
    auto parent = parent_of(directory);
    if (!parent) return std::unexpected(parent.error());
    const timespec times[2] = {{left.mtime_s, static_cast<long>(left.mtime_ns)},
                               {left.mtime_s, static_cast<long>(left.mtime_ns)}};
    if (utimensat(*parent, name.empty() ? "." : name.c_str(), times, AT_SYMLINK_NOFOLLOW) < 0)
      return snapshot_errno("Cannot set a directory's time");
  }
  return {};
}

Result<void> TreeReader::run() {
  Entry entry;
  for (;;) {
    auto more = archive_.next(entry);
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    if (++entries_ > kMostEntries) return snapshot_fault("A snapshot holds more than 1,000,000 entries.");
    if (auto left = leave_directories(&entry.path); !left) return left;
    if (auto done = unpack(entry); !done) return done;
  }
  return leave_directories(nullptr);
}
}  // namespace

Result<TreeSummary> check_archive(ArchiveReader& archive, int64_t data_limit) {
  TreeSummary summary;
  Digest digest;
  for (Entry entry;;) {
    auto more = archive.next(entry);
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    if (++summary.entries > kMostEntries)
      return snapshot_fault("A snapshot holds more than 1,000,000 entries.");
    digest.add(entry);
    if (!entry.hard_link.empty() || entry.type != S_IFREG) continue;
    summary.data_bytes += entry.data_bytes();
    if (summary.data_bytes > data_limit) return snapshot_fault("A snapshot holds more data than the disk.");
    int64_t total = 0;
    auto read = archive.data(entry.data_bytes(), [&](std::string_view part) -> Result<void> {
      digest.add(part);
      total += static_cast<int64_t>(part.size());
      return {};
    });
    if (!read) return std::unexpected(read.error());
    if (total != entry.data_bytes()) return snapshot_fault("A file in a snapshot is shorter than it says.");
  }
  summary.digest = digest.hex();
  return summary;
}

Result<void> read_tree(int root, ArchiveReader& archive, int64_t data_limit) {
  return TreeReader(root, archive, data_limit).run();
}

}  // namespace nodus::executor
