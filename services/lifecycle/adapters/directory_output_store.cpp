#include "services/lifecycle/adapters/directory_output_store.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>

#include "libs/linux/unique_fd.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/lifecycle/adapters/output_frames.hpp"

namespace nodus::lifecycle {

namespace {

using linux::UniqueFd;
using namespace output_frames;

constexpr size_t kRemembered = 8192;  // files whose ends are in memory
constexpr size_t kStripes = 64;
constexpr mode_t kOpen = 0600, kSealed = 0400;

std::unexpected<Error> broken(const char* what) {
  const int error = errno;
  log::warn("output_store.failed", {{"step", what}, {"error", std::strerror(error)}});
  Error out{Code::kUnavailable,
            "OutputStoreFailed",
            "What commands wrote cannot be kept or read now. Try again.",
            {},
            2,
            {}};
  return std::unexpected(std::move(out));
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !hex) return false;
  }
  return true;
}

struct Known {  // of one file
  OutputSizes sizes;
  uint64_t file_bytes = 0;
};

class DirectoryOutputStore final : public OutputStore {
 public:
  DirectoryOutputStore(UniqueFd root, OutputLimits limits) : root_(std::move(root)), limits_(limits) {}

  Result<uint64_t> append(const OutputKey& key, uint64_t from, std::span<const OutputFrame> frames) override;
  Result<void> seal(const OutputKey& key) override;
  Result<std::vector<OutputFrame>> read(const OutputKey& key, OutputCursor& cursor, size_t most) override;
  Result<OutputSizes> sizes(const OutputKey& key) override;
  Result<void> remove(const SandboxUid& sandbox) override;
  Result<int> sweep(Instant now) override;

 private:
  std::mutex& stripe(const OutputKey& key) {
    return stripes_[std::hash<std::string>{}(key.process.str()) % kStripes];
  }
  UniqueFd open_sandbox(const SandboxUid& sandbox, bool make);
  UniqueFd open_file(const UniqueFd& directory, const ProcessUid& process, int flags);
  Result<Known> known(const OutputKey& key, int fd, bool mend);
  void remember(const ProcessUid& process, const Known& known);
  void forget(const std::string& process);
  void make_room(const UniqueFd& directory, const ProcessUid& keep);

  const UniqueFd root_;
  const OutputLimits limits_;
  std::array<std::mutex, kStripes> stripes_;  // one Process's file is used by one thread at a time
  std::mutex memory_mutex_;
  std::list<std::string> recent_;  // newest first
  std::unordered_map<std::string, std::pair<Known, std::list<std::string>::iterator>> memory_;
};

UniqueFd DirectoryOutputStore::open_sandbox(const SandboxUid& sandbox, bool make) {
  errno = EINVAL;
  if (!is_uuid(sandbox.str())) return {};
  if (make && ::mkdirat(root_.get(), sandbox.str().c_str(), 0700) == 0) ::fsync(root_.get());
  return UniqueFd(
      ::openat(root_.get(), sandbox.str().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

UniqueFd DirectoryOutputStore::open_file(const UniqueFd& directory, const ProcessUid& process, int flags) {
  errno = EINVAL;
  if (!is_uuid(process.str())) return {};
  return UniqueFd(
      ::openat(directory.get(), process.str().c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, kOpen));
}

void DirectoryOutputStore::remember(const ProcessUid& process, const Known& known) {
  std::lock_guard hold(memory_mutex_);
  const auto found = memory_.find(process.str());
  if (found != memory_.end()) recent_.erase(found->second.second);
  recent_.push_front(process.str());
  memory_[process.str()] = {known, recent_.begin()};
  if (memory_.size() <= kRemembered) return;
  memory_.erase(recent_.back());
  recent_.pop_back();
}

void DirectoryOutputStore::forget(const std::string& process) {
  std::lock_guard hold(memory_mutex_);
  const auto found = memory_.find(process);
  if (found == memory_.end()) return;
  recent_.erase(found->second.second);
  memory_.erase(found);
}

// What the file holds. `mend`: what follows its last whole frame is cut off, so that it can be appended to.
Result<Known> DirectoryOutputStore::known(const OutputKey& key, int fd, bool mend) {
  {
    std::lock_guard hold(memory_mutex_);
    const auto found = memory_.find(key.process.str());
    if (found != memory_.end()) return found->second.first;
  }
  Known out;
  Scanner scanner(fd, 0);
  Header header{};
  for (std::string data; scanner.next(header, data);) {
    out.sizes.end = header.offset + header.length;
    (header.stream == 1 ? out.sizes.stdout_bytes : out.sizes.stderr_bytes) += header.length;
  }
  out.file_bytes = scanner.position();
  struct stat info{};
  if (::fstat(fd, &info) < 0) return broken("stat");
  if (mend && static_cast<uint64_t>(info.st_size) > out.file_bytes &&
      ::ftruncate(fd, static_cast<off_t>(out.file_bytes)) < 0)
    return broken("truncate");
  if (mend) remember(key.process, out);
  return out;
}

// When the Sandbox's files are over their quota the oldest of ended commands go, one after the other.
void DirectoryOutputStore::make_room(const UniqueFd& directory, const ProcessUid& keep) {
  struct File {
    timespec written;
    std::string name;
    uint64_t bytes;
  };
  std::vector<File> sealed;
  uint64_t total = 0;
  const int copy = ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = copy < 0 ? nullptr : ::fdopendir(copy);
  if (listing == nullptr) return;
  while (const dirent* entry = ::readdir(listing)) {
    struct stat info{};
    if (::fstatat(directory.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode))
      continue;
    total += static_cast<uint64_t>(info.st_size);
    if ((info.st_mode & 0200) == 0 && keep.str() != entry->d_name)
      sealed.push_back({info.st_mtim, entry->d_name, static_cast<uint64_t>(info.st_size)});
  }
  ::closedir(listing);
  if (total <= limits_.sandbox_bytes) return;
  std::ranges::sort(sealed, [](const File& a, const File& b) {
    return std::tie(a.written.tv_sec, a.written.tv_nsec) < std::tie(b.written.tv_sec, b.written.tv_nsec);
  });
  for (const auto& file : sealed) {
    if (total <= limits_.sandbox_bytes) break;
    if (::unlinkat(directory.get(), file.name.c_str(), 0) < 0) continue;
    forget(file.name);
    total -= file.bytes;
  }
}

Result<uint64_t> DirectoryOutputStore::append(const OutputKey& key, uint64_t from,
                                              std::span<const OutputFrame> frames) {
  static auto bytes =
      metrics::counter("nodus_lifecycle_output_bytes_total", "Bytes of commands' output kept");
  const std::lock_guard hold(stripe(key));
  const auto directory = open_sandbox(key.sandbox, true);
  if (!directory) return broken("open the Sandbox's directory");
  bool fresh = false;
  auto file = open_file(directory, key.process, O_RDWR);
  if (!file && errno == ENOENT) {
    file = open_file(directory, key.process, O_RDWR | O_CREAT | O_EXCL);
    fresh = true;
    forget(key.process.str());
  }
  if (!file && errno == EACCES)
    return fail(Code::kConflict, "OutputSealed", "The command has ended: its output is complete.");
  if (!file) return broken("open an output file");
  struct stat info{};
  if (::fstat(file.get(), &info) < 0) return broken("stat");
  if ((info.st_mode & 0200) == 0)
    return fail(Code::kConflict, "OutputSealed", "The command has ended: its output is complete.");
  auto have = known(key, file.get(), true);
  if (!have) return std::unexpected(std::move(have.error()));
  if (have->sizes.end != from) return have->sizes.end;
  Known after = *have;
  std::string text;
  for (const auto& frame : frames) {
    const bool sound = (frame.stream == 1 || frame.stream == 2) && !frame.data.empty() &&
                       frame.data.size() <= kMostFrame && frame.offset >= after.sizes.end;
    if (!sound) return fail(Code::kBadRequest, "BadRequest", "The frames are not in order.");
    if (frame.offset > limits_.process_bytes || frame.data.size() > limits_.process_bytes - frame.offset)
      return fail(Code::kTooLarge, "OutputTooLarge", "This is more output than is kept of a command.");
    Header header{frame.offset, static_cast<uint32_t>(frame.data.size()), static_cast<uint32_t>(frame.stream),
                  0, 0};
    header.checksum = checksum(header, frame.data);
    text.append(reinterpret_cast<const char*>(&header), sizeof header).append(frame.data);
    after.sizes.end = frame.offset + frame.data.size();
    (frame.stream == 1 ? after.sizes.stdout_bytes : after.sizes.stderr_bytes) += frame.data.size();
  }
  after.file_bytes += text.size();
  for (size_t put = 0; put < text.size();) {
    const ssize_t wrote = ::pwrite(file.get(), text.data() + put, text.size() - put,
                                   static_cast<off_t>(have->file_bytes + put));
    if (wrote <= 0) {
      forget(key.process.str());  // looked at again, and mended, before the next append
      return broken("write");
    }
    put += static_cast<size_t>(wrote);
  }
  if (::fdatasync(file.get()) < 0 || (fresh && ::fsync(directory.get()) < 0)) {
    forget(key.process.str());
    return broken("flush");
  }
  remember(key.process, after);
  bytes.add(static_cast<double>(text.size()));
  // Looked at only now and then: a quota is not a hair's breadth.
  if (fresh || (have->file_bytes >> 22) != (after.file_bytes >> 22)) make_room(directory, key.process);
  return after.sizes.end;
}

Result<void> DirectoryOutputStore::seal(const OutputKey& key) {
  const std::lock_guard hold(stripe(key));
  const auto directory = open_sandbox(key.sandbox, false);
  if (!directory) return {};
  const auto file = open_file(directory, key.process, O_RDONLY);
  if (!file) return {};
  if (::fchmod(file.get(), kSealed) < 0) return broken("seal");
  return {};
}

Result<std::vector<OutputFrame>> DirectoryOutputStore::read(const OutputKey& key, OutputCursor& cursor,
                                                            size_t most) {
  std::vector<OutputFrame> out;
  const std::lock_guard hold(stripe(key));
  const auto directory = open_sandbox(key.sandbox, false);
  if (!directory) return errno == ENOENT ? Result<std::vector<OutputFrame>>(out) : broken("open");
  const auto file = open_file(directory, key.process, O_RDONLY);
  if (!file) return errno == ENOENT ? Result<std::vector<OutputFrame>>(out) : broken("open");
  Scanner scanner(file.get(), cursor.position);
  Header header{};
  size_t bytes = 0;
  for (std::string data; bytes < most && scanner.next(header, data);) {
    cursor.position = scanner.position();
    if (header.offset + header.length <= cursor.offset) continue;
    const uint64_t skip = cursor.offset > header.offset ? cursor.offset - header.offset : 0;
    cursor.offset = header.offset + header.length;
    bytes += data.size() - skip;
    out.push_back({static_cast<int>(header.stream), header.offset + skip, data.substr(skip)});
  }
  return out;
}

Result<OutputSizes> DirectoryOutputStore::sizes(const OutputKey& key) {
  const std::lock_guard hold(stripe(key));
  const auto directory = open_sandbox(key.sandbox, false);
  if (!directory) return errno == ENOENT ? Result<OutputSizes>(OutputSizes{}) : broken("open");
  const auto file = open_file(directory, key.process, O_RDONLY);
  if (!file) return errno == ENOENT ? Result<OutputSizes>(OutputSizes{}) : broken("open");
  auto have = known(key, file.get(), false);
  if (!have) return std::unexpected(std::move(have.error()));
  return have->sizes;
}

// Answers the names of regular files in a directory, with when they were written.
std::vector<std::pair<std::string, Instant>> files_in(int directory) {
  std::vector<std::pair<std::string, Instant>> out;
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = copy < 0 ? nullptr : ::fdopendir(copy);
  if (listing == nullptr) return out;
  while (const dirent* entry = ::readdir(listing)) {
    struct stat info{};
    if (::fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode))
      continue;
    out.emplace_back(entry->d_name, from_micros(int64_t{info.st_mtim.tv_sec} * 1'000'000));
  }
  ::closedir(listing);
  return out;
}

Result<void> DirectoryOutputStore::remove(const SandboxUid& sandbox) {
  const auto directory = open_sandbox(sandbox, false);
  if (!directory) return errno == ENOENT || errno == EINVAL ? Result<void>() : broken("open");
  for (const auto& [name, written] : files_in(directory.get())) {
    if (::unlinkat(directory.get(), name.c_str(), 0) < 0 && errno != ENOENT) return broken("remove");
    forget(name);
  }
  if (::unlinkat(root_.get(), sandbox.str().c_str(), AT_REMOVEDIR) < 0 && errno != ENOENT)
    return broken("remove");
  return {};
}

Result<int> DirectoryOutputStore::sweep(Instant now) {
  std::vector<std::string> sandboxes;
  const int copy = ::openat(root_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = copy < 0 ? nullptr : ::fdopendir(copy);
  if (listing == nullptr) return broken("list");
  while (const dirent* entry = ::readdir(listing))
    if (is_uuid(entry->d_name)) sandboxes.emplace_back(entry->d_name);
  ::closedir(listing);
  int removed = 0;
  for (const auto& name : sandboxes) {
    const auto directory = open_sandbox(SandboxUid(name), false);
    if (!directory) continue;
    for (const auto& [file, written] : files_in(directory.get())) {
      if (now - written < limits_.age || ::unlinkat(directory.get(), file.c_str(), 0) < 0) continue;
      forget(file);
      ++removed;
    }
    ::unlinkat(root_.get(), name.c_str(), AT_REMOVEDIR);  // when it is empty
  }
  return removed;
}

}  // namespace

Result<std::unique_ptr<OutputStore>> make_directory_output_store(const std::filesystem::path& directory,
                                                                 OutputLimits limits) {
  std::error_code fault;
  std::filesystem::create_directories(directory, fault);
  UniqueFd root(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root || ::faccessat(root.get(), ".", W_OK | X_OK, AT_EACCESS) < 0)
    return fail(Code::kUnavailable, "OutputStoreFailed",
                "output.directory: " + directory.native() + " cannot be used: " + std::strerror(errno) + ".");
  return std::make_unique<DirectoryOutputStore>(std::move(root), limits);
}

}  // namespace nodus::lifecycle
