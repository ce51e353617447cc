// Everything that writes: a file is made whole beside the one it replaces, then takes its place.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <optional>

#include "services/executor/helper/file_peer.hpp"
#include "services/executor/helper/sha256.hpp"

namespace nodus::helper {
namespace {
constexpr int kCreateAttempts = 16;
constexpr unsigned kCommit_s = 240;
constexpr mode_t kNewFile = 0644, kNewDirectory = 0755;  // what umask 022 leaves
constexpr const char* kEmptySha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string fresh_name(int attempt) {
  char text[64];
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(text, sizeof text, ".nodus-%d-%lx-%d", getpid(), static_cast<long>(now.tv_nsec), attempt);
  return text;
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

// Compares the content of the file with the digest; reads no more than it must.
FileReply compare(const Place& place, std::string_view expected) {
  Descriptor file;
  struct stat info{};
  FileReply opened = open_regular(place, file, info);
  if (opened.status != FileStatus::kOk) return opened;
  if (info.st_size > 0 && expected == kEmptySha256) return outcome(FileStatus::kMismatch);
  if (opened.info.size > kMaxCompared) return fault(EFBIG);
  Sha256 hash;
  char part[kMaxData];
  uint64_t read_bytes = 0;
  for (;;) {
    const ssize_t got = read(file.fd(), part, sizeof part);
    if (got == 0) break;
    if (got < 0 && errno == EINTR && !out_of_time) continue;
    if (got < 0) return fault(errno);
    hash.add(part, got);
    if ((read_bytes += got) > kMaxCompared) return fault(EFBIG);
  }
  return outcome(hash.hex() == expected ? FileStatus::kOk : FileStatus::kMismatch);
}

class Put {
 public:
  Put(const PutRequest& request, int locks) : request_(request), locks_(locks) {}
  ~Put();
  FileReply begin();
  FileReply add(std::string_view data);
  FileReply sync();
  FileReply commit(uint64_t size, std::string_view sha256);

 private:
  FileReply check_existing(bool compare_content, bool& exists, mode_t& mode) const;
  int create_beside();
  void unmake();
  const PutRequest& request_;
  const int locks_;
  Place place_;
  Descriptor file_;
  std::string name_;  // of the file beside; empty: none
  Sha256 hash_;
  uint64_t got_ = 0;
};

Put::~Put() {
  if (name_.empty()) return;
  unlinkat(place_.directory, name_.c_str(), 0);
  unmake();
}

// Directories made for a file that was not written go away again, unless somebody uses them by now.
void Put::unmake() {
  for (auto made = place_.made.rbegin(); made != place_.made.rend(); ++made)
    if (unlinkat(made->first, made->second.c_str(), AT_REMOVEDIR) < 0) return;
}

int Put::create_beside() {
  for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
    const std::string name = fresh_name(attempt);
    file_.reset(
        openat(place_.directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file_) return name_ = name, 0;
    if (errno != EEXIST) return errno;
  }
  return EAGAIN;
}

// What is there now: may it be replaced, is it what the caller expects?
FileReply Put::check_existing(bool compare_content, bool& exists, mode_t& mode) const {
  struct stat info{};
  exists = fstatat(place_.directory, name_of(place_), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!exists && errno != ENOENT) return fault(errno);
  const std::string& expected = request_.expected_sha256;
  if (!exists) {
    if (!request_.if_match.empty()) return outcome(FileStatus::kPrecondition);
    return outcome(expected.empty() || expected == kEmptySha256 ? FileStatus::kOk : FileStatus::kMismatch);
  }
  if (!S_ISREG(info.st_mode)) return fault(EISDIR);
  mode = info.st_mode & 0777;
  const Descriptor writable(
      openat(place_.directory, name_of(place_), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
  if (!writable && errno != ETXTBSY) return fault(errno);
  if (request_.flags & kMustNotExist) return outcome(FileStatus::kPrecondition);
  if (!request_.if_match.empty() && !names_etag(request_.if_match, info_of(info).etag))
    return outcome(FileStatus::kPrecondition);
  if (!compare_content || expected.empty()) return {};
  return compare(place_, expected);
}

FileReply Put::begin() {
  if (request_.path.ends_with('/')) return fault(EISDIR);
  const bool needs_file = !request_.if_match.empty() ||
                          (!request_.expected_sha256.empty() && request_.expected_sha256 != kEmptySha256);
  for (int attempt = 0;; ++attempt) {
    const auto missing = needs_file ? Missing::kRefuse : Missing::kCreate;
    const int error = find_place(request_.path, missing, true, place_);
    if (error == ENOENT && needs_file)
      return outcome(request_.if_match.empty() ? FileStatus::kMismatch : FileStatus::kPrecondition);
    FileReply reply = error ? fault(error) : FileReply{};
    if (!error && place_.name.empty()) reply = fault(EISDIR);
    bool exists = false;
    mode_t mode = 0;
    if (reply.status == FileStatus::kOk) reply = check_existing(false, exists, mode);  // spares the transfer
    const int failed = reply.status == FileStatus::kOk ? create_beside() : 0;
    if (reply.status == FileStatus::kOk && !failed) return {};
    unmake();
    // Somebody else's directory went away, or came, between two looks.
    if ((failed == ENOENT || error == ENOENT) && attempt < kCreateAttempts) continue;
    return failed ? fault(failed) : reply;
  }
}

FileReply Put::add(std::string_view data) {
  if (data.size() > request_.most - got_) return fault(EFBIG);
  hash_.add(data.data(), data.size());
  got_ += data.size();
  while (!data.empty()) {
    const ssize_t written = write(file_.fd(), data.data(), data.size());
    if (written < 0 && errno == EINTR && !out_of_time) continue;
    if (written < 0) return fault(errno);
    data.remove_prefix(written);
  }
  return {};
}

FileReply Put::sync() {
  if (fdatasync(file_.fd()) < 0) return fault(errno);
  FileReply reply;
  reply.info.size = got_;
  return reply;
}

FileReply Put::commit(uint64_t size, std::string_view sha256) {
  if (size != kUnknownSize && got_ != size) return outcome(FileStatus::kInterrupted);
  const std::string digest = hash_.hex();
  if (!sha256.empty() && sha256 != digest) return outcome(FileStatus::kDigest);
  if (fsync(file_.fd()) < 0) return fault(errno);
  alarm(kCommit_s);  // others wait for the lock
  if (!lock(locks_, place_)) return fault(errno);
  bool exists = false;
  mode_t mode = kNewFile;
  FileReply reply = check_existing(true, exists, mode);
  if (reply.status != FileStatus::kOk) return reply;
  if (request_.flags & kModeAlways || (request_.flags & kModeIfNew && !exists)) mode = request_.mode;
  if (fchmod(file_.fd(), mode) < 0) return fault(errno);
  const int64_t second = 1'000'000'000;
  const int64_t at_ns = request_.mtime_ns;
  const timespec times[2] = {{0, UTIME_OMIT}, {at_ns / second, at_ns % second}};
  if (request_.flags & kSetMtime && futimens(file_.fd(), times) < 0) return fault(errno);
  if (renameat(place_.directory, name_.c_str(), place_.directory, place_.name.c_str()) < 0)
    return fault(errno);
  name_.clear();
  flush_directory(place_.directory);
  struct stat info{};
  if (fstat(file_.fd(), &info) == 0) reply.info = info_of(info);
  reply.info.size = got_;
  reply.sha256 = digest;
  return reply;
}
}  // namespace

// Takes in the file. Nothing: the peer left.
static std::optional<FileReply> receive_file(Peer& peer, Put& put) {
  FileReply reply = put.begin();
  while (reply.status == FileStatus::kOk) {
    Reader body(peer.receive());
    const auto kind = static_cast<Kind>(body.u8());
    if (kind == Kind::kData) {
      const auto data = body.text();
      if (!body.done()) return std::nullopt;
      reply = put.add(data);
    } else if (kind == Kind::kSync) {
      reply = put.sync();
      if (reply.status == FileStatus::kOk && !peer.reply(reply)) return std::nullopt;
    } else if (kind == Kind::kCommit) {
      const uint64_t size = body.u64();
      const auto sha256 = body.text();
      if (!body.done()) return std::nullopt;
      return put.commit(size, sha256);
    } else {
      return std::nullopt;
    }
  }
  return reply;
}

void put_file(Peer& peer, const PutRequest& request, int locks) {
  std::optional<FileReply> reply;
  {
    Put put(request, locks);
    reply = receive_file(peer, put);
  }  // nothing is left of a file that was refused when its caller hears of it
  close(locks);
  if (reply) peer.refuse(*reply);
}

FileReply remove_file(std::string_view path, std::string_view if_match, int locks) {
  Place place;
  if (const int error = find_place(path, Missing::kRefuse, false, place)) return absent(error);
  if (place.name.empty()) return fault(EPERM);
  if (!lock(locks, place)) return fault(errno);
  struct stat info{};
  if (fstatat(place.directory, place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) return fault(errno);
  if (!if_match.empty() && !names_etag(if_match, info_of(info).etag))
    return outcome(FileStatus::kPrecondition);
  const int how = S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0;
  if (!how && path.ends_with('/')) return fault(ENOTDIR);
  if (unlinkat(place.directory, place.name.c_str(), how) < 0)
    return fault(errno == EBUSY || errno == EINVAL ? EPERM : errno);  // a mount point
  flush_directory(place.directory);
  return {};
}

namespace {
FileReply make_directory(const MakeRequest& request) {
  Place place;
  if (const int error = find_place(request.path, Missing::kCreate, true, place)) return fault(error);
  bool made = false;
  if (!place.name.empty()) {
    made = mkdirat(place.directory, place.name.c_str(), kNewDirectory) == 0;
    if (!made && errno != EEXIST) return fault(errno);
  }
  const Descriptor directory(
      openat(place.directory, name_of(place), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const bool readable = static_cast<bool>(directory);
  if (!readable && errno != EACCES) return fault(errno == ELOOP ? ENOTDIR : errno);
  const bool set_mode = request.flags & kModeAlways || (request.flags & kModeIfNew && made);
  if (set_mode && (readable ? fchmod(directory.fd(), request.mode)
                            : fchmodat(place.directory, name_of(place), request.mode, 0)) < 0)
    return fault(errno);
  const int64_t second = 1'000'000'000;
  const timespec times[2] = {{0, UTIME_OMIT}, {request.mtime_ns / second, request.mtime_ns % second}};
  if (request.flags & kSetMtime && utimensat(place.directory, name_of(place), times, AT_SYMLINK_NOFOLLOW) < 0)
    return fault(errno);
  if (made) flush_directory(place.directory);
  return {};
}

FileReply make_link(const MakeRequest& request) {
  Place place;
  if (const int error = find_place(request.path, Missing::kCreate, false, place)) return fault(error);
  if (place.name.empty() || request.path.ends_with('/')) return fault(EISDIR);
  for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
    const std::string name = fresh_name(attempt);
    if (symlinkat(request.target.c_str(), place.directory, name.c_str()) < 0) {
      if (errno == EEXIST) continue;
      return fault(errno);
    }
    if (renameat(place.directory, name.c_str(), place.directory, place.name.c_str()) < 0) {
      const int error = errno;
      unlinkat(place.directory, name.c_str(), 0);
      return fault(error);
    }
    flush_directory(place.directory);
    return {};
  }
  return fault(EAGAIN);
}
}  // namespace

FileReply make_entry(const MakeRequest& request) {
  return request.target.empty() ? make_directory(request) : make_link(request);
}

}  // namespace nodus::helper
