#include "cli/local_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/signals.hpp"
#include "libs/base/random.hpp"

namespace nodus::cli {

namespace {
mode_t current_umask() {
  const mode_t mask = umask(022);
  umask(mask);
  return mask;
}

// The length of the UTF-8 character at the front that a terminal may show; 0: none.
size_t shown_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f && byte(0) != '\\' ? 1 : 0;
  const size_t size = byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4 : byte(0) >= 0xe0 ? 3 : byte(0) >= 0xc2 ? 2 : 0;
  if (size == 0 || byte(0) >= 0xf5 || size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (byte(0) == 0xc2 && byte(1) < 0xa0) return 0;                                         // C1 controls
  if (byte(0) == 0xe2 && byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) return 0;  // direction marks
  if (byte(0) == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9) return 0;
  return size;
}
}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

std::unexpected<Error> local_fault(std::string message) {
  return fail(Code::kInvalid, "LocalFault", std::move(message));
}

std::unexpected<Error> errno_fault(const std::string& path) {
  return local_fault(fmt::format("{}: {}.", shown(path), strerror(errno)));
}

std::string shown(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const size_t size = shown_length(name);
    if (size > 0) {
      text += name.substr(0, size);
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(name.front()));
    }
    name.remove_prefix(size > 0 ? size : 1);
  }
  return text;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

bool stays_inside(std::string_view target, size_t depth) {
  if (target.empty() || target.front() == '/' || target.find('\0') != target.npos) return false;
  for (bool descends = false; !target.empty();) {
    const size_t slash = std::min(target.find('/'), target.size());
    const auto part = target.substr(0, slash);
    target.remove_prefix(std::min(slash + 1, target.size()));
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      descends = true;
    } else if (descends || depth == 0) {
      return false;
    } else {
      --depth;
    }
  }
  return true;
}

Result<NewFile> NewFile::create(int directory, const std::string& name, const std::string& said,
                                bool follow) {
  struct stat info{};
  const bool there = fstatat(directory, name.c_str(), &info, follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
  if (there && S_ISDIR(info.st_mode)) return local_fault(fmt::format("{} is a directory.", shown(said)));
  if (there && !S_ISREG(info.st_mode)) {
    if (!follow && !S_ISLNK(info.st_mode))
      return local_fault(fmt::format("{} is there and is not a file.", shown(said)));
    if (follow) {
      Fd file(openat(directory, name.c_str(), O_WRONLY | O_CLOEXEC));
      if (!file) return errno_fault(said);
      return NewFile(std::move(file), directory, name, said);
    }
  }
  const std::string temporary = ".nodus-" + to_hex(random_bytes(8));
  Fd file(openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return errno_fault(said);
  NewFile made(std::move(file), directory, name, said);
  made.temporary_ = temporary;
  if (there && S_ISREG(info.st_mode)) made.old_mode_ = info.st_mode & 07777;
  on_interrupt("",
               directory == AT_FDCWD ? temporary : fmt::format("/proc/self/fd/{}/{}", directory, temporary));
  return made;
}

NewFile::NewFile(NewFile&& other) noexcept
    : file_(std::move(other.file_)),
      directory_(other.directory_),
      name_(std::move(other.name_)),
      temporary_(std::exchange(other.temporary_, {})),
      said_(std::move(other.said_)),
      old_mode_(other.old_mode_) {}

NewFile::~NewFile() {
  if (temporary_.empty()) return;
  unlinkat(directory_, temporary_.c_str(), 0);
  on_interrupt("");
}

Result<void> NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file_.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno != EINTR) return errno_fault(said_);
    if (wrote > 0) bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return {};
}

Result<void> NewFile::cut_to(uint64_t size) {
  const auto at = static_cast<off_t>(size);
  if (ftruncate(file_.get(), at) != 0 || lseek(file_.get(), at, SEEK_SET) != at) return errno_fault(said_);
  return {};
}

Result<void> NewFile::keep(std::optional<mode_t> mode, std::optional<timespec> mtime) {
  if (in_place()) return {};
  const mode_t wanted = mtime && mode ? *mode & 0777
                        : old_mode_   ? *old_mode_
                                      : mode.value_or(0666) & 0777 & ~current_umask();
  if (fchmod(file_.get(), wanted) != 0) return errno_fault(said_);
  const timespec times[2] = {{0, UTIME_OMIT}, mtime.value_or(timespec{0, UTIME_OMIT})};
  if (futimens(file_.get(), times) != 0 || fdatasync(file_.get()) != 0) return errno_fault(said_);
  if (renameat(directory_, temporary_.c_str(), directory_, name_.c_str()) != 0) return errno_fault(said_);
  temporary_.clear();
  on_interrupt("");
  return {};
}

}  // namespace nodus::cli
