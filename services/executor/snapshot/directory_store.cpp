#include "services/executor/snapshot/directory_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "libs/base/random.hpp"
#include "services/executor/snapshot/tree.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
namespace {
constexpr size_t kParts = 5, kPartSize = 128;

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

bool valid_part(std::string_view part, bool number) {
  return !part.empty() && part.size() <= kPartSize && part.front() != '-' &&
         std::all_of(part.begin(), part.end(), [&](char c) {
           return (c >= '0' && c <= '9') || (!number && ((c >= 'a' && c <= 'z') || c == '-'));
         });
}

// Makes the directories of `path` below `root`, each flushed into its parent.
Result<void> make_directories(const fs::path& root, const fs::path& relative) {
  fs::path at = root;
  std::vector<fs::path> parts = {fs::path()};
  parts.insert(parts.end(), relative.begin(), relative.end());
  for (const auto& part : parts) {
    if (!part.empty()) at /= part;
    if (mkdir(at.c_str(), 0700) < 0 && errno != EEXIST)
      return snapshot_errno("Cannot make a directory of the store");
    const Fd parent(open(at.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent || fsync(parent.get()) < 0) return snapshot_errno("Cannot flush a directory of the store");
  }
  return {};
}

struct Written {
  TreeSummary summary;
  std::string sha256;
  int64_t size = 0;
};

Result<Written> write_object(int upper, int file, int64_t limit) {
  ArchiveWriter archive(file);
  Written written;
  if (auto begun = archive.begin(); !begun) return std::unexpected(begun.error());
  auto summary = write_tree(upper, archive, limit);
  if (!summary) return std::unexpected(summary.error());
  if (auto ended = archive.end(); !ended) return std::unexpected(ended.error());
  if (fsync(file) < 0) return snapshot_errno("Cannot flush a snapshot");
  written.summary = std::move(*summary);
  written.sha256 = archive.sha256();
  written.size = archive.size();
  return written;
}

Result<void> check_bytes(int file, const std::string& sha256, int64_t size) {
  struct stat info{};
  if (fstat(file, &info) < 0) return snapshot_errno("Cannot look at a snapshot");
  if (info.st_size != size) return snapshot_fault("A snapshot has another size than when it was saved.");
  Digest digest;
  std::vector<char> part(256 * 1024);
  for (int64_t at = 0; at < size;) {
    const ssize_t got = pread(file, part.data(), part.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return snapshot_errno("Cannot read a snapshot");
    digest.add(std::string_view(part.data(), static_cast<size_t>(got)));
    at += got;
  }
  if (digest.hex() != sha256) return snapshot_fault("A snapshot has other bytes than when it was saved.");
  return {};
}

// From the disk, not from the page cache.
Result<void> read_back(const fs::path& path, const Written& written, int64_t limit) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return snapshot_errno("Cannot read a snapshot back");
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (auto same = check_bytes(file.get(), written.sha256, written.size); !same) return same;
  ArchiveReader archive(file.get());
  if (auto begun = archive.begin(); !begun) return begun;
  auto summary = check_archive(archive, limit);
  if (!summary && archive.interrupted()) return std::unexpected(summary.error());
  // The bytes are those that were written, so the same files come out like this every time.
  if (!summary || *summary != written.summary)
    return snapshot_refused("A snapshot reads back as something else than was saved.");
  return {};
}

Result<void> unpack(int file, const fs::path& upper) {
  const Fd tree(open(upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!tree) return snapshot_errno("Cannot open the Sandbox's disk");
  auto limit = capacity_of(tree.get());
  if (!limit) return std::unexpected(limit.error());
  ArchiveReader archive(file);
  if (auto begun = archive.begin(); !begun) return begun;
  return read_tree(tree.get(), archive, *limit);
}
}  // namespace

bool valid_object_name(std::string_view object) {
  for (size_t i = 0; i < kParts; ++i) {
    const size_t slash = object.find('/');
    if ((slash == object.npos) != (i == kParts - 1) || !valid_part(object.substr(0, slash), i >= 2))
      return false;
    object.remove_prefix(slash == object.npos ? object.size() : slash + 1);
  }
  return true;
}

Result<RestorePoint> DirectoryStore::save(const fs::path& upper, const std::string& object) {
  if (!valid_object_name(object))
    return snapshot_fault("A snapshot's name is organization/sandbox/start/epoch/n.");
  const Fd tree(open(upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!tree) return snapshot_errno("Cannot open the Sandbox's files");
  auto limit = capacity_of(tree.get());
  if (!limit) return std::unexpected(limit.error());
  const fs::path path = root_ / object;
  if (auto made = make_directories(root_, fs::path(object).parent_path()); !made)
    return std::unexpected(made.error());
  const fs::path temporary = path.string() + ".new-" + to_hex(random_bytes(8));
  const Fd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return snapshot_errno("Cannot make a snapshot");
  auto written = write_object(tree.get(), file.get(), *limit);
  auto result =
      written ? read_back(temporary, *written, *limit) : Result<void>(std::unexpected(written.error()));
  if (result && rename(temporary.c_str(), path.c_str()) < 0)
    result = snapshot_errno("Cannot name a snapshot");
  if (!result) {
    unlink(temporary.c_str());
    return std::unexpected(result.error());
  }
  const Fd directory(open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || fsync(directory.get()) < 0)
    return snapshot_errno("Cannot flush a directory of the store");
  return RestorePoint{object, written->sha256, written->size, clock_.now()};
}

Result<void> DirectoryStore::restore(const RestorePoint& from, const fs::path& upper) {
  if (!valid_object_name(from.object))
    return snapshot_fault("A snapshot's name is organization/sandbox/start/epoch/n.");
  const Fd file(open((root_ / from.object).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return snapshot_errno("Cannot open a snapshot");
  if (auto same = check_bytes(file.get(), from.sha256, from.size_bytes); !same) return same;
  return unpack(file.get(), upper);
}

}  // namespace nodus::executor
