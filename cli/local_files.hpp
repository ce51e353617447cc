// The local side of cp. What comes from a Sandbox is hostile: everything is written below a directory that is
// held open, name by name, and no link is ever followed there.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "libs/base/error.hpp"

namespace nodus::cli {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

std::unexpected<Error> local_fault(std::string message);
std::unexpected<Error> errno_fault(const std::string& path);  // "path: No such file or directory."

// For a terminal: control characters and what is not UTF-8 are shown as escapes.
std::string shown(std::string_view name);

// A single component that can name a file: not "", ".", "..", no slash, no NUL, at most 255 bytes.
bool is_plain_name(std::string_view name);

// Whether a link `depth` directories below the root of a copied tree, with this target, stays in the tree,
// whatever the other links are: "../" at the front at most `depth` times, then names only.
bool stays_inside(std::string_view target, size_t depth);

// A file that becomes visible when it is whole.
class NewFile {
 public:
  // Beside `name` in `directory`. What is there and is not a regular file (a pipe, /dev/null) is written as
  // it is if `follow`, and refused otherwise.
  static Result<NewFile> create(int directory, const std::string& name, const std::string& said, bool follow);
  NewFile(NewFile&& other) noexcept;
  ~NewFile();  // removes what was not kept
  Result<void> write(std::string_view bytes);
  Result<void> cut_to(uint64_t size);  // to write on from there; not of what is written in place
  bool in_place() const { return temporary_.empty(); }
  // `mode`: of a new file, less the umask; exactly, also of one that is replaced, with `mtime`.
  Result<void> keep(std::optional<mode_t> mode, std::optional<timespec> mtime);

 private:
  NewFile(Fd file, int directory, std::string name, std::string said)
      : file_(std::move(file)), directory_(directory), name_(std::move(name)), said_(std::move(said)) {}
  Fd file_;
  int directory_;
  std::string name_, temporary_, said_;
  std::optional<mode_t> old_mode_;
};

}  // namespace nodus::cli
