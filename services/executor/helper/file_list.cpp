// A page of a directory, sorted by the bytes of the names. The directory is read whole for each page, but
// only the names of the page are held: memory does not grow with the directory.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "services/executor/helper/file_peer.hpp"

namespace nodus::helper {
namespace {
constexpr size_t kJoined = 32u << 10;

bool is_root(int directory) {
  struct stat here{}, root{};
  return fstat(directory, &here) == 0 && stat("/", &root) == 0 && here.st_ino == root.st_ino &&
         here.st_dev == root.st_dev;
}

// The first `most` names after `after`. 0 or an errno.
int first_names(DIR* open, std::string_view after, size_t most, bool root, std::set<std::string>& names) {
  for (errno = 0; const dirent* entry = readdir(open); errno = 0) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || name <= after) continue;
    if (names.size() == most && name >= *names.rbegin()) continue;
    if (root && refused_place("/" + std::string(name))) continue;  // not to be reached either
    names.emplace(name);
    if (names.size() > most) names.erase(std::prev(names.end()));
    if (out_of_time) return EINTR;
  }
  return errno;
}
}  // namespace

void list_directory(Peer& peer, std::string_view path, uint32_t limit, std::string_view after) {
  Place place;
  if (const int error = find_place(path, Missing::kRefuse, true, place)) return peer.refuse(absent(error));
  struct stat info{};
  if (fstatat(place.directory, name_of(place), &info, AT_SYMLINK_NOFOLLOW) < 0)
    return peer.refuse(fault(errno));
  if (!S_ISDIR(info.st_mode)) return peer.refuse(fault(ENOTDIR));
  const int fd = openat(place.directory, name_of(place), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* open = fd < 0 ? nullptr : fdopendir(fd);
  if (!open) return peer.refuse(fault(errno));
  std::set<std::string> names;
  const int error = first_names(open, after, size_t{limit} + 1, is_root(fd), names);
  if (error) return peer.refuse(fault(error));
  FileReply reply;
  reply.info = info_of(info);
  if (!peer.reply(reply)) return;
  const bool more = names.size() > limit;
  if (more) names.erase(std::prev(names.end()));
  Writer frame(Kind::kEntries);
  size_t held = 0;
  for (const auto& name : names) {
    if (fstatat(fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) continue;  // gone meanwhile
    FileInfo entry = info_of(info);
    char target[4096];
    if (S_ISLNK(info.st_mode)) {
      const ssize_t size = readlinkat(fd, name.c_str(), target, sizeof target);
      if (size > 0) entry.target.assign(target, size);
    }
    put_info(frame.text(name), entry);
    held += name.size() + entry.target.size() + 160;
    if (held < kJoined) continue;
    if (!peer.send(frame.take())) return;
    frame = Writer(Kind::kEntries);
    held = 0;
  }
  if (held > 0 && !peer.send(frame.take())) return;
  (void)peer.send(Writer(Kind::kData).text(more ? "more" : "").take());
}

}  // namespace nodus::helper
