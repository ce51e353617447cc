#include "services/executor/helper/files.hpp"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "services/executor/helper/file_peer.hpp"
#include "services/executor/helper/sha256.hpp"

namespace nodus::helper {
namespace {
constexpr unsigned kShort_s = 300;
constexpr int kIdlePut_s = 900;  // nodusd gives up an upload earlier

// The effective and file system identity becomes the user's; the real and saved one stay the helper's, so
// that the user cannot signal or trace the worker. It executes nothing and keeps no capability.
bool become(uint32_t user, uint32_t group) {
  if (user == 0 || setgroups(0, nullptr) < 0 || setresgid(-1, group, -1) < 0 || setresuid(-1, user, -1) < 0)
    return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

// Calls `use` with the bytes of a range, piece by piece. False: the file is shorter now, or `use` said so.
template <class Use>
bool read_range(int file, uint64_t offset, uint64_t length, Use use) {
  char part[kMaxData];
  while (length > 0 && !out_of_time) {
    const ssize_t got =
        pread(file, part, std::min<uint64_t>(length, sizeof part), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || !use(std::string_view(part, got))) return false;
    offset += got, length -= got;
  }
  return length == 0;
}

void get(Peer& peer, std::string_view path) {
  Place place;
  if (const int error = find_place(path, Missing::kRefuse, true, place)) return peer.refuse(absent(error));
  if (path.ends_with('/')) return peer.refuse(fault(EISDIR));
  Descriptor file;
  struct stat info{};
  const FileReply opened = open_regular(place, file, info);
  if (!peer.reply(opened) || opened.status != FileStatus::kOk) return;
  for (;;) {
    Reader body(peer.receive());
    const auto kind = static_cast<Kind>(body.u8());
    const uint64_t offset = body.u64(), length = body.u64();
    const bool digest = body.u8() != 0;
    if (!body.done() || kind != Kind::kRead || offset > opened.info.size ||
        length > opened.info.size - offset || opened.info.size > std::numeric_limits<off_t>::max())
      return;
    FileReply reply = opened;
    if (digest) {
      Sha256 hash;
      const bool whole = read_range(file.fd(), offset, length, [&](std::string_view part) {
        hash.add(part.data(), part.size());
        return true;
      });
      if (!whole) return peer.refuse(outcome(FileStatus::kInterrupted));
      reply.sha256 = hash.hex();
    }
    // The caller sees the connection end before the last frame when the file got shorter.
    if (!peer.reply(reply) || !read_range(file.fd(), offset, length, [&](std::string_view part) {
          return peer.send(Writer(Kind::kData).text(part).take());
        }))
      return;
    if (!peer.send(Writer(Kind::kData).text({}).take())) return;
  }
}

FileReply stat_file(std::string_view path, bool follow) {
  Place place;
  if (const int error = find_place(path, Missing::kRefuse, follow || path.ends_with('/'), place))
    return absent(error);
  struct stat info{};
  if (fstatat(place.directory, name_of(place), &info, AT_SYMLINK_NOFOLLOW) < 0) return fault(errno);
  if (path.ends_with('/') && !S_ISDIR(info.st_mode)) return fault(ENOTDIR);
  FileReply reply;
  reply.info = info_of(info);
  if (S_ISLNK(info.st_mode)) {
    char target[4096];
    const ssize_t size = readlinkat(place.directory, name_of(place), target, sizeof target);
    if (size < 0) return fault(errno);
    reply.info.target.assign(target, size);
  }
  return reply;
}

void on_alarm(int) {
  out_of_time = 1;
}

// Reads what is left of the operation's first frame and does it. False: the frame is malformed.
bool serve(Peer& peer, Kind kind, const std::string& path, Reader& body, int locks) {
  if (kind == Kind::kGet) {
    if (!body.done()) return false;
    alarm(kFileWorker_s);
    get(peer, path);
  } else if (kind == Kind::kPut) {
    PutRequest request{.path = path};
    request.most = body.u64(), request.flags = body.u8(), request.mode = body.u32() & 0777;
    request.mtime_ns = static_cast<int64_t>(body.u64());
    request.expected_sha256 = body.text(), request.if_match = body.text();
    if (!body.done()) return false;
    alarm(kFileWorker_s);
    peer.set_patience(kIdlePut_s);
    put_file(peer, request, locks);
  } else if (kind == Kind::kDelete) {
    const std::string if_match(body.text());
    if (!body.done()) return false;
    const FileReply reply = remove_file(path, if_match, locks);
    close(locks);  // the next writer need not wait until the peer has read this
    peer.refuse(reply);
  } else if (kind == Kind::kStat) {
    const bool follow = body.u8() != 0;
    if (!body.done()) return false;
    peer.refuse(stat_file(path, follow));
  } else if (kind == Kind::kMake) {
    MakeRequest request{.path = path};
    request.flags = body.u8(), request.mode = body.u32() & 0777;
    request.mtime_ns = static_cast<int64_t>(body.u64()), request.target = body.text();
    if (!body.done()) return false;
    peer.refuse(make_entry(request));
  } else if (kind == Kind::kList) {
    const uint32_t limit = body.u32();
    const std::string after(body.text());
    if (!body.done()) return false;
    list_directory(peer, path, limit, after);
  } else {
    return false;
  }
  return true;
}
}  // namespace

void serve_file(int connection, int locks) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  umask(022);
  signal(SIGPIPE, SIG_IGN);
  struct sigaction interrupt{};
  interrupt.sa_handler = on_alarm;
  sigaction(SIGALRM, &interrupt, nullptr);
  alarm(kShort_s);
  Peer peer(connection);
  const std::string first(peer.receive());
  Reader body(first);
  const auto kind = static_cast<Kind>(body.u8());
  const uint32_t user = body.u32(), group = body.u32();
  const std::string path(body.text());
  if (!body.ok()) _exit(1);
  if (!become(user, group)) {
    FileReply reply = outcome(FileStatus::kFailed);
    reply.error = static_cast<uint32_t>(errno);
    peer.refuse(reply);
    _exit(1);
  }
  _exit(serve(peer, kind, path, body, locks) ? 0 : 1);
}

}  // namespace nodus::helper
