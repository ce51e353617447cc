// nodus cp: files and trees, in or out.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/names.hpp"
#include "cli/transfer.hpp"

namespace nodus::cli {

namespace {
constexpr size_t kMostDeep = 1000;  // directories: a link cannot make a tree endless, a hostile Sandbox could

std::string base_name(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

std::string join(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

// What makes it useless to go on with the next file.
bool ends_all(const Error& error) {
  static constexpr std::string_view kLocal[] = {
      "NotFound",           "Forbidden",      "NotAFile",    "NotADirectory",
      "DirectoryNotEmpty",  "FileTooLarge",   "PathInvalid", "LocalFault",
      "PreconditionFailed", "DigestMismatch", "Invalid"};
  return std::ranges::find(kLocal, error.reason) == std::end(kLocal);
}

class Tree {
 public:
  Tree(Api& api, Files& files) : console_(api.console()), files_(files) {}
  Result<void> upload(int directory, const std::string& said, const std::string& path,
                      const struct stat& info);
  Result<void> download(const std::string& path, int directory, const std::string& said, size_t depth);
  bool complete() const { return complete_; }

 private:
  Result<void> upload_entry(int directory, const std::string& name, const std::string& said,
                            const std::string& path);
  Result<void> download_entry(const RemoteEntry& entry, const std::string& path, int directory,
                              const std::string& said, size_t depth);
  Result<void> download_directory(const RemoteEntry& entry, const std::string& path, int directory,
                                  const std::string& said, size_t depth);
  // The copy goes on with the next entry; the exit code tells.
  Result<void> note(Result<void> done, const std::string& said) {
    if (done || ends_all(done.error())) return done;
    left_out(said, done.error().message);
    return {};
  }
  void left_out(const std::string& said, const std::string& why) {
    complete_ = false;
    console_.err << fmt::format("error: {} was not copied: {}\n", shown(said), why);
  }
  Console& console_;
  Files& files_;
  bool complete_ = true;
};

Result<std::vector<std::string>> sorted_names(int directory, const std::string& said) {
  const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* open = copy < 0 ? nullptr : fdopendir(copy);
  if (!open) return errno_fault(said);
  std::vector<std::string> names;
  for (errno = 0; const dirent* entry = readdir(open); errno = 0)
    if (is_plain_name(entry->d_name)) names.emplace_back(entry->d_name);
  const int fault = errno;
  closedir(open);
  errno = fault;
  if (fault != 0) return errno_fault(said);
  std::ranges::sort(names);
  return names;
}

Result<void> Tree::upload(int directory, const std::string& said, const std::string& path,
                          const struct stat& info) {
  // Writable while it is filled; its own mode and time come last.
  if (auto made = files_.make_directory(path, (info.st_mode & 0777) | 0700, false, {}); !made) return made;
  auto names = sorted_names(directory, said);
  if (!names) return std::unexpected(names.error());
  for (const auto& name : *names) {
    const std::string told = join(said, name);
    if (auto done = note(upload_entry(directory, name, told, join(path, name)), told); !done) return done;
  }
  if (!files_.preserve()) return {};
  return files_.make_directory(path, info.st_mode & 0777, true, info.st_mtim);
}

Result<void> Tree::upload_entry(int directory, const std::string& name, const std::string& said,
                                const std::string& path) {
  struct stat info{};
  if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return errno_fault(said);
  if (S_ISLNK(info.st_mode)) {
    char target[4096];
    const ssize_t size = readlinkat(directory, name.c_str(), target, sizeof target);
    if (size < 0) return errno_fault(said);
    return files_.make_link(path, {target, static_cast<size_t>(size)});
  }
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
    return local_fault("it is not a file, directory or link.");
  const int flags =
      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (S_ISDIR(info.st_mode) ? O_DIRECTORY : 0);
  const Fd file(openat(directory, name.c_str(), flags));
  if (!file) return errno_fault(said);
  return S_ISDIR(info.st_mode) ? upload(file.get(), said, path, info) : files_.upload(file.get(), said, path);
}

Result<void> Tree::download(const std::string& path, int directory, const std::string& said, size_t depth) {
  if (depth > kMostDeep) return local_fault(fmt::format("more than {} directories deep.", kMostDeep));
  return files_.list(path, [&](const RemoteEntry& entry) -> Result<void> {
    const std::string told = join(said, entry.name);
    if (!is_plain_name(entry.name)) {
      left_out(told, "its name is not the name of a file.");
      return {};
    }
    return note(download_entry(entry, join(path, entry.name), directory, told, depth), told);
  });
}

Result<void> Tree::download_entry(const RemoteEntry& entry, const std::string& path, int directory,
                                  const std::string& said, size_t depth) {
  const std::string& type = entry.info.type;
  if (type == "directory") return download_directory(entry, path, directory, said, depth);
  if (type == "file") return files_.download(path, directory, entry.name, said, false);
  if (type != "symlink") return local_fault("it is a " + type + ".");
  if (!stays_inside(entry.info.target, depth))
    return local_fault(
        fmt::format("it is a link that leads out of the copied tree, to {}.", shown(entry.info.target)));
  struct stat there{};
  if (fstatat(directory, entry.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(there.st_mode)) return local_fault("a directory of that name is there.");
    if (unlinkat(directory, entry.name.c_str(), 0) != 0) return errno_fault(said);
  }
  return symlinkat(entry.info.target.c_str(), directory, entry.name.c_str()) == 0 ? Result<void>()
                                                                                  : errno_fault(said);
}

Result<void> Tree::download_directory(const RemoteEntry& entry, const std::string& path, int directory,
                                      const std::string& said, size_t depth) {
  const bool made = mkdirat(directory, entry.name.c_str(), (entry.info.mode | 0700) & 0777) == 0;
  if (!made && errno != EEXIST) return errno_fault(said);
  const Fd inner(openat(directory, entry.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inner && (errno == ELOOP || errno == ENOTDIR))
    return local_fault("what is there is no directory; links are not followed.");
  if (!inner) return errno_fault(said);
  if (auto done = download(path, inner.get(), said, depth + 1); !done || !files_.preserve()) return done;
  const timespec times[2] = {{0, UTIME_OMIT}, entry.info.mtime};
  if (fchmod(inner.get(), entry.info.mode & 0777) != 0 || futimens(inner.get(), times) != 0)
    return errno_fault(said);
  return {};
}

// ---- the command

Result<void> copy_in(Files& files, Tree& tree, const CopyFlags& flags, const RemotePath& to) {
  const bool from_input = flags.from == "-";
  if (from_input && to.path.ends_with('/')) return local_fault("Name the file: standard input has no name.");
  const Fd file(from_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                           : open(flags.from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!file || fstat(file.get(), &info) != 0) return errno_fault(flags.from);
  const std::string name = base_name(flags.from);
  if (S_ISDIR(info.st_mode)) {
    if (!flags.recursive)
      return local_fault(
          fmt::format("{} is a directory; give -r to copy it with what is in it.", shown(flags.from)));
    // As cp does: into a directory that is there, or as the new name.
    auto there = files.stat(to.path, true);
    if (!there && there.error().reason != "NotFound") return std::unexpected(there.error());
    const bool into = there && there->type == "directory" && name != "." && name != "..";
    return tree.upload(file.get(), flags.from, into ? join(to.path, name) : to.path, info);
  }
  std::string path = to.path.ends_with('/') ? to.path + name : to.path;
  auto done = files.upload(file.get(), flags.from, path);
  if (done || done.error().reason != "NotAFile" || from_input) return done;
  auto there = files.stat(path, true);
  if (!there || there->type != "directory") return done;
  if (lseek(file.get(), 0, SEEK_SET) != 0) return done;
  return files.upload(file.get(), flags.from, join(path, name));
}

Result<void> copy_tree_out(Files& files, Tree& tree, const RemotePath& from, const std::string& to) {
  struct stat info{};
  const std::string name = base_name(from.path);
  const bool there = stat(to.c_str(), &info) == 0;
  std::string target = to;
  if (there && name != "." && name != "..") {
    if (name != "/" && !is_plain_name(name)) return local_fault("Name the directory to copy to.");
    if (name != "/") target = join(to, name);
  }
  std::string path = from.path;  // "/dir/.": what is in it
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/."))) path.pop_back();
  auto remote = files.stat(path, true);
  if (!remote) return std::unexpected(remote.error());
  if (mkdir(target.c_str(), (remote->mode | 0700) & 0777) != 0 && errno != EEXIST) return errno_fault(target);
  const Fd root(open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return errno_fault(target);
  return tree.download(path, root.get(), target, 0);
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// A link that is typed as the target is followed, as cp does.
std::string resolved(const std::string& target) {
  char* real = realpath(target.c_str(), nullptr);
  std::string path = real ? real : target;
  free(real);
  return path;
}

Result<void> copy_out(Files& files, Tree& tree, const CopyFlags& flags, const RemotePath& from) {
  if (flags.to == "-") return files.download_to_output(from.path, STDOUT_FILENO);
  const auto is_directory = [&]() -> Result<bool> {
    std::string path = from.path;
    if (path.ends_with("/.")) path.pop_back();
    auto remote = files.stat(path, true);
    if (!remote) return std::unexpected(remote.error());
    if (remote->type == "directory" && !flags.recursive)
      return local_fault(
          fmt::format("{} is a directory; give -r to copy it with what is in it.", shown(flags.from)));
    return remote->type == "directory";
  };
  const std::string name = base_name(from.path);
  if (flags.recursive || !is_plain_name(name) || from.path.ends_with('/')) {
    const auto directory = is_directory();
    if (!directory) return std::unexpected(directory.error());
    if (*directory) return copy_tree_out(files, tree, from, flags.to);
  }
  struct stat info{};
  const bool into = flags.to.ends_with('/') || (stat(flags.to.c_str(), &info) == 0 && S_ISDIR(info.st_mode));
  const std::string target = resolved(into ? join(flags.to, name) : flags.to);
  const Fd directory(open(parent_of(target).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return errno_fault(parent_of(target));
  auto done = files.download(from.path, directory.get(), base_name(target), target, true);
  if (done || done.error().reason != "NotAFile") return done;
  if (const auto is = is_directory(); !is) return std::unexpected(is.error());
  return done;
}
}  // namespace

int copy(Api& api, const CopyFlags& flags) {
  Console& console = api.console();
  const auto from = remote_path(flags.from), to = remote_path(flags.to);
  if (from.has_value() == to.has_value())
    return usage_error(console,
                       "One of the two is a path in a Sandbox, such as sb/hello:/workspace/notes.txt.");
  const RemotePath& remote = from ? *from : *to;
  if (const auto name = sandbox_name(remote.sandbox); !name) return report(console, name.error());
  if (!remote.path.starts_with('/'))
    return usage_error(console,
                       fmt::format("The path in the Sandbox, \"{}\", must begin with a slash.", remote.path));
  Files files(api, remote.sandbox, flags.preserve);
  Tree tree(api, files);
  const Result<void> copied = from ? copy_out(files, tree, flags, *from) : copy_in(files, tree, flags, *to);
  if (!copied) return report(console, copied.error());
  return tree.complete() ? kOk : kRefused;
}

}  // namespace nodus::cli
