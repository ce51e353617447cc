#include "services/executor/helper/walk.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace nodus::helper {
namespace {
constexpr int kMostLinks = 40;
constexpr size_t kMostComponents = PATH_MAX;
constexpr std::string_view kRefused[] = {"proc", "sys", "dev", ".nodus", ".run"};
constexpr int kDirectory = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Pushes the components of `path` so that the first one is at the back.
void push(std::vector<std::string>& ahead, std::string_view path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const auto part = path.substr(at, slash - at);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    at = slash + 1;
  }
  ahead.insert(ahead.end(), parts.rbegin(), parts.rend());
}

bool is_root(int directory) {
  struct stat here, root;
  return fstat(directory, &here) == 0 && stat("/", &root) == 0 && here.st_ino == root.st_ino &&
         here.st_dev == root.st_dev;
}

class Walk {
 public:
  explicit Walk(Missing missing) : missing_(missing), at_(open("/", kDirectory)) {}
  ~Walk() {
    if (at_ >= 0) close(at_);
  }
  int run(std::string_view path, bool follow, Place& place);

 private:
  int enter(const std::string& name, Place& place);
  int make(const std::string& name, Place& place);
  int follow_link(const std::string& name);
  Missing missing_;
  int at_;
  int links_ = 0;
  std::vector<std::string> ahead_;
};

// A directory that is flushed into its parent, so that a file in it is found after a crash.
int Walk::make(const std::string& name, Place& place) {
  if (mkdirat(at_, name.c_str(), 0755) < 0) return errno == EEXIST ? 0 : errno;
  const int parent = fcntl(at_, F_DUPFD_CLOEXEC, 0);
  if (parent < 0) return errno;
  place.made.emplace_back(parent, name);
  const int readable = openat(at_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (readable < 0) return 0;
  fsync(readable);
  close(readable);
  return 0;
}

int Walk::enter(const std::string& name, Place& place) {
  int next = openat(at_, name.c_str(), kDirectory);
  if (next < 0 && errno == ENOENT && missing_ == Missing::kCreate) {
    if (const int fault = make(name, place)) return fault;
    next = openat(at_, name.c_str(), kDirectory);
  }
  if (next < 0) return errno;
  close(at_);
  at_ = next;
  return 0;
}

// Puts what the link says in front of what is left. EINVAL: it is no link.
int Walk::follow_link(const std::string& name) {
  char target[PATH_MAX];
  const ssize_t size = readlinkat(at_, name.c_str(), target, sizeof target);
  if (size < 0) return errno;
  if (size == 0 || size == sizeof target) return ENAMETOOLONG;
  if (++links_ > kMostLinks) return ELOOP;
  push(ahead_, {target, static_cast<size_t>(size)});
  if (target[0] != '/') return 0;
  const int root = open("/", kDirectory);
  if (root < 0) return errno;
  close(at_);
  at_ = root;
  return 0;
}

int Walk::run(std::string_view path, bool follow, Place& place) {
  if (at_ < 0) return errno;
  if (path.empty() || path[0] != '/' || path.find('\0') != path.npos) return EINVAL;
  if (path.size() >= PATH_MAX) return ENAMETOOLONG;
  place.made.clear();
  push(ahead_, path);
  while (!ahead_.empty()) {
    if (ahead_.size() > kMostComponents) return ENAMETOOLONG;
    const std::string name = std::move(ahead_.back());
    ahead_.pop_back();
    if (name.size() > NAME_MAX) return ENAMETOOLONG;
    if (std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused) && is_root(at_))
      return EXDEV;
    const bool last = ahead_.empty();
    if (!last || follow || name == "..") {
      const int link = name == ".." ? EINVAL : follow_link(name);
      if (link == 0) continue;
      if (link != EINVAL && link != ENOENT) return link;
    }
    if (last && name != "..") {
      place.name = name;
      break;
    }
    if (const int fault = enter(name, place)) return fault;
  }
  place.directory = at_;
  at_ = -1;
  return 0;
}
}  // namespace

bool refused_place(std::string_view path) {
  if (path.empty() || path[0] != '/') return true;
  const auto first = path.substr(1, path.find('/', 1) - 1);
  return std::find(std::begin(kRefused), std::end(kRefused), first) != std::end(kRefused);
}

int find_place(std::string_view path, Missing missing, bool follow, Place& place) {
  return Walk(missing).run(path, follow, place);
}

}  // namespace nodus::helper
