#include "services/executor/helper/file_peer.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>

namespace nodus::helper {

volatile sig_atomic_t out_of_time = 0;

namespace {
constexpr int kStep_s = 60;
constexpr int kRefused_s = 10;  // for the peer to notice a refusal

// Since 1970; a file system can hold times that this cannot.
int64_t nanoseconds(const timespec& time) {
  constexpr int64_t kMost_s = 9'000'000'000;
  const int64_t seconds = std::clamp<int64_t>(time.tv_sec, -kMost_s, kMost_s);
  return seconds * 1'000'000'000 + time.tv_nsec;
}
}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Peer::Peer(int fd) : fd_(fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  set_patience(kStep_s);
}

void Peer::set_patience(int seconds) {
  const timeval step{seconds, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &step, sizeof step);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &step, sizeof step);
}

std::string_view Peer::receive() {
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

bool Peer::send(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR && !out_of_time) continue;
    if (sent <= 0) return false;
    at += sent;
  }
  return true;
}

void Peer::refuse(const FileReply& answer) {
  if (!reply(answer)) return;
  alarm(kRefused_s);
  char part[kMaxData];
  while (!out_of_time && recv(fd_, part, sizeof part, 0) > 0) {
  }
}

FileReply outcome(FileStatus status) {
  FileReply reply;
  reply.status = status;
  return reply;
}

FileReply fault(int error) {
  const auto status = [error] {
    switch (error) {
      case ENOENT:
        return FileStatus::kNotFound;
      case EACCES:
      case EPERM:
      case EXDEV:
      case EROFS:
        return FileStatus::kForbidden;
      case EISDIR:
      case ENXIO:
        return FileStatus::kNotAFile;
      case ENOTDIR:
        return FileStatus::kNotADirectory;
      case ENOTEMPTY:
      case EEXIST:
        return FileStatus::kNotEmpty;
      case EINVAL:
      case ENAMETOOLONG:
      case ELOOP:
        return FileStatus::kBadPath;
      case ENOSPC:
      case EDQUOT:
        return FileStatus::kNoSpace;
      case EFBIG:
        return FileStatus::kTooLarge;
      case EINTR:
      case EAGAIN:
      case EDEADLK:
      case ENOLCK:
        return FileStatus::kBusy;
      default:
        return FileStatus::kFailed;
    }
  }();
  FileReply reply = outcome(status);
  reply.error = static_cast<uint32_t>(error);
  return reply;
}

FileInfo info_of(const struct stat& from) {
  FileInfo info;
  info.type = S_ISREG(from.st_mode)    ? FileType::kFile
              : S_ISDIR(from.st_mode)  ? FileType::kDirectory
              : S_ISLNK(from.st_mode)  ? FileType::kSymlink
              : S_ISFIFO(from.st_mode) ? FileType::kFifo
              : S_ISSOCK(from.st_mode) ? FileType::kSocket
                                       : FileType::kDevice;
  info.size = static_cast<uint64_t>(from.st_size);
  info.mode = from.st_mode & 07777;
  info.mtime_ns = nanoseconds(from.st_mtim);
  char text[96];
  snprintf(text, sizeof text, "\"%lx-%lx-%lx-%lx\"", static_cast<unsigned long>(from.st_ino),
           static_cast<unsigned long>(from.st_size), static_cast<unsigned long>(info.mtime_ns),
           static_cast<unsigned long>(nanoseconds(from.st_ctim)));
  info.etag = text;
  return info;
}

FileReply open_regular(const Place& place, Descriptor& file, struct stat& info) {
  if (fstatat(place.directory, name_of(place), &info, AT_SYMLINK_NOFOLLOW) < 0) return fault(errno);
  if (!S_ISREG(info.st_mode)) return fault(EISDIR);
  file.reset(
      openat(place.directory, name_of(place), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
  if (!file || fstat(file.fd(), &info) < 0) return fault(errno);
  if (!S_ISREG(info.st_mode)) return fault(EISDIR);  // it changed meanwhile
  FileReply reply;
  reply.info = info_of(info);
  return reply;
}

void flush_directory(int directory) {
  const Descriptor readable(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (readable) fsync(readable.fd());
}

}  // namespace nodus::helper
