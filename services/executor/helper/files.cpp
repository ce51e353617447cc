#include "services/executor/helper/files.hpp"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "services/executor/helper/protocol.hpp"
#include "services/executor/helper/sha256.hpp"
#include "services/executor/helper/walk.hpp"

namespace nodus::helper {
namespace {
constexpr int kStep_s = 60, kWhole_s = 300;
constexpr int kCreateAttempts = 16;
volatile sig_atomic_t out_of_time = 0;

struct Reply {
  FileStatus status = FileStatus::kOk;
  int error = 0;
  uint64_t size = 0;
  uint32_t mode = 0;
  std::string sha256;
};

Reply fault(int error) {
  switch (error) {
    case ENOENT:
      return {FileStatus::kNotFound, error};
    case EACCES:
    case EPERM:
    case EXDEV:
    case EROFS:
      return {FileStatus::kForbidden, error};
    case ENOTDIR:
    case EISDIR:
    case ENXIO:
      return {FileStatus::kNotAFile, error};
    case ENOTEMPTY:
    case EEXIST:
      return {FileStatus::kNotEmpty, error};
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return {FileStatus::kBadPath, error};
    case ENOSPC:
    case EDQUOT:
      return {FileStatus::kNoSpace, error};
    case EFBIG:
      return {FileStatus::kTooLarge, error};
    case EINTR:
    case EAGAIN:
    case EDEADLK:
      return {FileStatus::kBusy, error};
    default:
      return {FileStatus::kFailed, error};
  }
}

class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { reset(-1); }
  void reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

class Connection {
 public:
  explicit Connection(int fd) : fd_(fd) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    const timeval step{kStep_s, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &step, sizeof step);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &step, sizeof step);
  }
  // The next frame, valid until the next call; empty when the peer left or talks nonsense.
  std::string_view receive() {
    buffer_.erase(0, used_);
    for (used_ = 0;;) {
      const int64_t length = frame_length(buffer_);
      if (length < 0) return {};
      if (length > 0) return used_ = 4 + length, std::string_view(buffer_).substr(4, length);
      char part[kMaxData];
      const ssize_t got = recv(fd_, part, sizeof part, 0);
      if (got < 0 && errno == EINTR && !out_of_time) continue;
      if (got <= 0) return {};
      buffer_.append(part, got);
    }
  }
  bool send_frame(Writer&& frame) {
    const std::string bytes = frame.take();
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR && !out_of_time) continue;
      if (sent <= 0) return false;
      at += sent;
    }
    return true;
  }
  bool send_reply(const Reply& reply) {
    return send_frame(std::move(Writer(Kind::kFileReply)
                                    .u8(static_cast<uint8_t>(reply.status))
                                    .u32(reply.error)
                                    .u64(reply.size)
                                    .u32(reply.mode)
                                    .text(reply.sha256)));
  }

 private:
  int fd_;
  std::string buffer_;
  size_t used_ = 0;
};

// The effective and file system identity becomes the user's; the real and saved one stay the helper's, so
// that the user cannot signal or trace the worker. It executes nothing and keeps no capability.
bool become(uint32_t user, uint32_t group) {
  if (user == 0 || setgroups(0, nullptr) < 0 || setresgid(-1, group, -1) < 0 || setresuid(-1, user, -1) < 0)
    return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

Reply open_regular(const Place& place, File& file, struct stat& info) {
  const char* name = place.name.empty() ? "." : place.name.c_str();
  file.reset(openat(place.directory, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
  if (!file) return fault(errno);
  if (fstat(file.fd(), &info) < 0) return fault(errno);
  if (!S_ISREG(info.st_mode)) return fault(EISDIR);
  return {FileStatus::kOk, 0, static_cast<uint64_t>(info.st_size), info.st_mode & 07777};
}

void get(Connection& peer, std::string_view path, uint64_t limit) {
  Place place;
  if (const int error = find_place(path, Missing::kRefuse, true, place)) {
    peer.send_reply(fault(error));
    return;
  }
  File file;
  struct stat info{};
  Reply reply = open_regular(place, file, info);
  if (reply.status == FileStatus::kOk && reply.size > limit) reply.status = FileStatus::kTooLarge;
  if (!peer.send_reply(reply) || reply.status != FileStatus::kOk) return;
  char part[kMaxData];
  for (uint64_t left = reply.size; left > 0;) {  // a file that grows meanwhile is cut at the size announced
    const ssize_t got = read(file.fd(), part, std::min<uint64_t>(left, sizeof part));
    if (got <= 0 || !peer.send_frame(std::move(Writer(Kind::kData).text({part, static_cast<size_t>(got)}))))
      return;  // the caller sees the connection end before the last frame
    left -= got;
  }
  peer.send_frame(std::move(Writer(Kind::kData).text({})));
}

// A new file beside the one it will replace.
int create_beside(const Place& place, std::string& name) {
  for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
    char text[64];
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, ".nodus-%d-%lx-%d", getpid(), static_cast<long>(now.tv_nsec), attempt);
    const int fd = openat(place.directory, text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) return name = text, fd;
    if (errno != EEXIST) return -1;
  }
  return -1;
}

Reply receive_into(Connection& peer, int fd, uint64_t size) {
  Sha256 hash;
  uint64_t got = 0;
  for (;;) {
    Reader body(peer.receive());
    if (static_cast<Kind>(body.u8()) != Kind::kData) return {FileStatus::kInterrupted};
    auto data = body.text();
    if (!body.done()) return {FileStatus::kInterrupted};
    if (data.empty()) break;
    if (got + data.size() > kMaxFile) return fault(EFBIG);
    hash.add(data.data(), data.size());
    got += data.size();
    while (!data.empty()) {
      const ssize_t written = write(fd, data.data(), data.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return fault(errno);
      data.remove_prefix(written);
    }
  }
  if (size != kUnknownSize && got != size) return {FileStatus::kInterrupted};
  return {FileStatus::kOk, 0, got, 0, hash.hex()};
}

// One writer of a path at a time; the range is freed when the worker ends.
bool lock(int locks, const Place& place) {
  struct stat directory{};
  if (fstat(place.directory, &directory) < 0) return false;
  uint64_t key = directory.st_dev * 1000003 + directory.st_ino;
  for (unsigned char c : place.name) key = (key ^ c) * 1099511628211ull;
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(key >> 2);
  range.l_len = 1;
  return fcntl(locks, F_SETLKW, &range) == 0;
}

// What is there now, under the lock: may it be replaced, has it the content that the caller expects?
Reply check_existing(const Place& place, std::string_view expected, mode_t& mode) {
  struct stat info{};
  Sha256 hash;
  if (fstatat(place.directory, place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISREG(info.st_mode)) return fault(EISDIR);
    mode = info.st_mode & 0777;
    File writable(
        openat(place.directory, place.name.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (!writable && errno != ETXTBSY) return fault(errno);
    File file;
    if (!expected.empty()) {
      Reply opened = open_regular(place, file, info);
      if (opened.status != FileStatus::kOk) return opened;
      char part[kMaxData];
      ssize_t got;
      while ((got = read(file.fd(), part, sizeof part)) > 0) hash.add(part, got);
      if (got < 0) return fault(errno);
    }
  } else if (errno != ENOENT) {
    return fault(errno);
  }
  if (!expected.empty() && hash.hex() != expected) return {FileStatus::kMismatch};
  return {};
}

Reply replace(const Place& place, int locks, int fd, const std::string& name, std::string_view expected) {
  if (!lock(locks, place)) return fault(errno);
  mode_t mode = 0644;
  Reply checked = check_existing(place, expected, mode);
  if (checked.status != FileStatus::kOk) return checked;
  if (fchmod(fd, mode) < 0 || fsync(fd) < 0 ||
      renameat(place.directory, name.c_str(), place.directory, place.name.c_str()) < 0)
    return fault(errno);
  File directory(openat(place.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) fsync(directory.fd());  // a directory that may be entered but not read is flushed later
  return {};
}

Reply put(Connection& peer, std::string_view path, uint64_t size, std::string_view expected, int locks) {
  Place place;
  if (const int error = find_place(path, Missing::kCreate, true, place)) return fault(error);
  if (place.name.empty() || path.ends_with('/')) return fault(EISDIR);
  std::string name;
  mode_t mode = 0;
  Reply reply = check_existing(place, {}, mode);  // early, to spare the transfer
  if (reply.status != FileStatus::kOk) return reply;
  File file(create_beside(place, name));
  if (!file) return fault(errno);
  reply = receive_into(peer, file.fd(), size);
  if (reply.status == FileStatus::kOk) {
    Reply replaced = replace(place, locks, file.fd(), name, expected);
    if (replaced.status == FileStatus::kOk) return reply;
    reply = replaced;
  }
  unlinkat(place.directory, name.c_str(), 0);
  return reply;
}

Reply remove(std::string_view path, int locks) {
  Place place;
  if (const int error = find_place(path, Missing::kRefuse, false, place)) return fault(error);
  if (place.name.empty()) return fault(EPERM);
  if (!lock(locks, place)) return fault(errno);
  struct stat info{};
  if (fstatat(place.directory, place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) return fault(errno);
  const int how = S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0;
  if (!how && path.ends_with('/')) return fault(ENOTDIR);
  if (unlinkat(place.directory, place.name.c_str(), how) < 0)
    return fault(errno == EBUSY || errno == EINVAL ? EPERM : errno);  // a mount point
  return {};
}

Reply stat_file(std::string_view path) {
  Place place;
  if (const int error = find_place(path, Missing::kRefuse, true, place)) return fault(error);
  struct stat info{};
  if (fstatat(place.directory, place.name.empty() ? "." : place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0)
    return fault(errno);
  return {FileStatus::kOk, 0, static_cast<uint64_t>(info.st_size), info.st_mode};
}

void on_alarm(int) {  // ends a blocking call with EINTR
  out_of_time = 1;
}
}  // namespace

void serve_file(int connection, int locks) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  umask(022);
  signal(SIGPIPE, SIG_IGN);
  struct sigaction interrupt{};
  interrupt.sa_handler = on_alarm;
  sigaction(SIGALRM, &interrupt, nullptr);
  alarm(kWhole_s);
  Connection peer(connection);
  Reader body(peer.receive());
  const auto kind = static_cast<Kind>(body.u8());
  const uint32_t user = body.u32(), group = body.u32();
  const std::string path(body.text());
  const uint64_t number = kind == Kind::kGet || kind == Kind::kPut ? body.u64() : 0;
  const std::string expected(kind == Kind::kPut ? body.text() : std::string_view{});
  if (!body.done()) _exit(1);
  if (!become(user, group)) {
    peer.send_reply({FileStatus::kFailed, errno});
    _exit(1);
  }
  switch (kind) {
    case Kind::kGet:
      get(peer, path, number);
      break;
    case Kind::kPut:
      peer.send_reply(put(peer, path, number, expected, locks));
      break;
    case Kind::kDelete:
      peer.send_reply(remove(path, locks));
      break;
    case Kind::kStat:
      peer.send_reply(stat_file(path));
      break;
    default:
      break;
  }
  _exit(0);
}

}  // namespace nodus::helper
