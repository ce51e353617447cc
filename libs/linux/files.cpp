#include "libs/linux/files.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>

#include "libs/linux/system_error.hpp"

namespace nodus::linux {
namespace fs = std::filesystem;

static Result<std::string> read_all(int fd, const fs::path& path, size_t limit) {
  std::string bytes;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(errno, "read", path.native());
    if (got == 0) return bytes;
    bytes.append(buffer.data(), static_cast<size_t>(got));
    if (bytes.size() > limit) return system_failure(EFBIG, "read", path.native());
  }
}

Result<std::string> read_file(const fs::path& path, size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure(errno, "open", path.native());
  return read_all(fd.get(), path, limit);
}

static Result<void> write_all(int fd, std::string_view bytes, const fs::path& path) {
  do {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_failure(errno, "write", path.native());
    bytes.remove_prefix(static_cast<size_t>(put));
  } while (!bytes.empty());
  return {};
}

Result<void> write_file(const fs::path& path, std::string_view bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return system_failure(errno, "open", path.native());
  return write_all(fd.get(), bytes, path);
}

Result<void> write_file_durably(const fs::path& path, std::string_view bytes) {
  const fs::path temporary = path.native() + ".new";
  {
    const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd) return system_failure(errno, "open", temporary.native());
    if (auto written = write_all(fd.get(), bytes, temporary); !written) return written;
    if (::fdatasync(fd.get()) != 0) return system_failure(errno, "fdatasync", temporary.native());
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return system_failure(errno, "rename", path.native());
  const UniqueFd directory(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0)
    return system_failure(errno, "fsync", path.parent_path().native());
  return {};
}

Result<void> make_directories(const fs::path& path, unsigned mode) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    return system_failure(errno, "mkdir", path.native());
  return {};
}

static Result<void> remove_at(int parent, const char* name, dev_t device, const std::string& shown,
                              int depth);

static Result<void> remove_children(int directory, dev_t device, const std::string& shown, int depth) {
  std::error_code error;
  // Names first: removing while listing may skip entries.
  std::vector<std::string> names;
  const fs::path self = "/proc/self/fd/" + std::to_string(directory);
  for (fs::directory_iterator it(self, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().native());
  if (error) return system_failure(error.value(), "list", shown);
  for (const auto& name : names)
    if (auto removed = remove_at(directory, name.c_str(), device, shown + "/" + name, depth + 1); !removed)
      return removed;
  return {};
}

static Result<void> remove_at(int parent, const char* name, dev_t device, const std::string& shown,
                              int depth) {
  constexpr int kMaxDepth = 1000;
  if (depth > kMaxDepth) return system_failure(ELOOP, "remove", shown);
  if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return system_failure(errno, "unlink", shown);
  {
    const UniqueFd fd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return errno == ENOENT ? Result<void>() : system_failure(errno, "open", shown);
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) return system_failure(errno, "stat", shown);
    if (status.st_dev != device) return system_failure(EXDEV, "remove", shown);
    if (auto removed = remove_children(fd.get(), device, shown, depth); !removed) return removed;
  }
  if (::unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
    return system_failure(errno, "rmdir", shown);
  return {};
}

Result<void> remove_tree(const fs::path& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0)
    return errno == ENOENT ? Result<void>() : system_failure(errno, "stat", path.native());
  return remove_at(AT_FDCWD, path.c_str(), status.st_dev, path.native(), 0);
}

bool wait_for_file(const fs::path& path, Millis timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  const UniqueFd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ::inotify_add_watch(events.get(), path.parent_path().c_str(), IN_CREATE | IN_MOVED_TO);
  for (;;) {
    if (::access(path.c_str(), F_OK) == 0) return true;
    const auto left = std::chrono::ceil<Millis>(until - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{events.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(left)) > 0) {
      std::array<char, 4096> seen;
      while (::read(events.get(), seen.data(), seen.size()) > 0) {
      }
    }
  }
}

Result<UniqueFd> open_in_root(int root_fd, const std::string& inside, int flags, unsigned mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  constexpr int kTries = 64;  // EAGAIN: something was renamed meanwhile
  for (int i = 0; i < kTries; ++i) {
    const auto fd = static_cast<int>(::syscall(SYS_openat2, root_fd, inside.c_str(), &how, sizeof how));
    if (fd >= 0) return UniqueFd(fd);
    if (errno != EAGAIN && errno != EINTR) return system_failure(errno, "open", inside);
  }
  return system_failure(EAGAIN, "open", inside);
}

Result<UniqueFd> open_file_in_root(int root_fd, const std::string& inside, int flags, unsigned mode) {
  auto fd = open_in_root(root_fd, inside, flags | O_NONBLOCK | O_NOCTTY, mode);
  if (!fd) return fd;
  struct stat status{};
  if (::fstat(fd->get(), &status) != 0) return system_failure(errno, "stat", inside);
  if (!S_ISREG(status.st_mode)) return fail(Code::kInvalid, "NotAFile", inside + " is not a regular file.");
  return fd;
}

Result<std::string> read_file_in_root(int root_fd, const std::string& inside, size_t limit) {
  auto fd = open_file_in_root(root_fd, inside, O_RDONLY);
  if (!fd) return std::unexpected(fd.error());
  return read_all(fd->get(), inside, limit);
}

Result<UniqueFd> make_directories_in_root(int root_fd, const std::string& inside, unsigned mode, unsigned uid,
                                          unsigned gid) {
  std::string done = "/";
  auto at = open_in_root(root_fd, done, O_PATH | O_DIRECTORY);
  if (!at) return at;
  for (const auto& part : fs::path(inside)) {
    if (part == "/" || part.empty()) continue;
    if (part == "..") return system_failure(EINVAL, "make directory", inside);
    auto next = open_in_root(root_fd, done + "/" + part.native(), O_PATH | O_DIRECTORY);
    if (!next) {
      if (::mkdirat(at->get(), part.c_str(), mode) != 0 && errno != EEXIST)
        return system_failure(errno, "make directory", inside);
      next = UniqueFd(::openat(at->get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!*next) return system_failure(errno, "open", inside);
      if (::fchmod(next->get(), mode) != 0 || ::fchown(next->get(), uid, gid) != 0)
        return system_failure(errno, "own", inside);
    }
    done += "/" + part.native();
    at = std::move(next);
  }
  return at;
}

bool is_real_directory(const fs::path& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace nodus::linux
