// nodus cp: one file, in or out.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cli/commands.hpp"
#include "cli/names.hpp"
#include "cli/signals.hpp"
#include "libs/base/random.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace fs = std::filesystem;

namespace {

std::unexpected<Error> local(std::string message) {
  return fail(Code::kInvalid, "LocalFault", std::move(message));
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  bool write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = write(fd_, bytes.data(), bytes.size());
      if (wrote < 0 && errno != EINTR) return false;
      if (wrote > 0) bytes.remove_prefix(static_cast<size_t>(wrote));
    }
    return true;
  }

 private:
  int fd_;
};

std::string file_url(const Api& api, const RemotePath& remote, const std::string& path) {
  return api.url("/sandboxes/" + http::escape(remote.sandbox) + "/files?path=" + http::escape(path, true));
}

std::string starting(const RemotePath& remote) {
  return fmt::format("sandboxes/{} is starting; waiting for it", remote.sandbox);
}

Result<void> upload(Api& api, const std::string& from, const RemotePath& to) {
  File file(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!file.is_open() || fstat(file.fd(), &info) != 0)
    return local(fmt::format("{}: {}.", from, strerror(errno)));
  if (S_ISDIR(info.st_mode))
    return local(fmt::format(
        "{} is a directory; cp copies one file: make an archive of it (tar) and copy that.", from));
  std::string path = to.path;
  if (path.ends_with('/')) path += fs::path(from).filename().string();
  http::ClientRequest request;
  request.method = "PUT";
  request.url = file_url(api, to, path);
  request.headers.set("Content-Type", "application/octet-stream");
  request.total_time = Millis(0);
  request.idle_time = Millis(60'000);
  const bool regular = S_ISREG(info.st_mode);
  int read_fault = 0;
  request.read_body = [&](char* into, size_t space) -> size_t {
    const ssize_t got = read(file.fd(), into, space);
    if (got < 0) read_fault = errno;
    return got < 0 ? SIZE_MAX : static_cast<size_t>(got);  // more than the space: the call ends
  };
  const auto answer = api.call(
      std::move(request),
      [&](http::ClientRequest& again) {
        lseek(file.fd(), 0, SEEK_SET);
        if (regular) again.body_size = info.st_size;
      },
      starting(to));
  if (read_fault != 0) return local(fmt::format("{}: {}.", from, strerror(read_fault)));
  if (!answer) return std::unexpected(answer.error());
  return {};
}

// Into a file beside the target that then takes its place: half a file is never seen. What is not a regular
// file (a terminal, /dev/null) is written as it is.
Result<void> download(Api& api, const RemotePath& from, const std::string& to) {
  fs::path target(to);
  std::error_code ignored;
  if (fs::is_directory(target, ignored) || to.ends_with('/')) target /= fs::path(from.path).filename();
  const bool in_place = fs::exists(target, ignored) && !fs::is_regular_file(target, ignored);
  const fs::path written =
      in_place ? target : target.parent_path() / fmt::format(".nodus-{}", to_hex(random_bytes(6)));
  const int flags = in_place ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL;
  File file(open(written.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.is_open()) return local(fmt::format("{}: {}.", target.string(), strerror(errno)));
  if (!in_place) on_interrupt("", written.string());
  http::ClientRequest request;
  request.url = file_url(api, from, from.path);
  request.total_time = Millis(0);
  request.idle_time = Millis(60'000);
  int write_fault = 0;
  request.on_body = [&](std::string_view part) {
    if (file.write_all(part)) return true;
    write_fault = errno;
    return false;
  };
  const auto answer = api.call(
      std::move(request),
      [&](http::ClientRequest&) {
        if (!in_place && (ftruncate(file.fd(), 0) != 0 || lseek(file.fd(), 0, SEEK_SET) != 0))
          write_fault = errno;
      },
      starting(from));
  Result<void> result;
  if (write_fault != 0) {
    result = local(fmt::format("{}: {}.", target.string(), strerror(write_fault)));
  } else if (!answer) {
    result = std::unexpected(answer.error());
  } else if (!in_place && rename(written.c_str(), target.c_str()) != 0) {
    result = local(fmt::format("{}: {}.", target.string(), strerror(errno)));
  }
  if (!result && !in_place) unlink(written.c_str());
  on_interrupt("");
  return result;
}

}  // namespace

int copy(Api& api, const std::string& from, const std::string& to) {
  Console& console = api.console();
  const auto remote_from = remote_path(from), remote_to = remote_path(to);
  if (remote_from.has_value() == remote_to.has_value())
    return usage_error(console,
                       "One of the two is a path in a Sandbox, such as sb/hello:/workspace/notes.txt.");
  const RemotePath& remote = remote_from ? *remote_from : *remote_to;
  if (const auto name = sandbox_name(remote.sandbox); !name) return report(console, name.error());
  if (!remote.path.starts_with('/'))
    return usage_error(console,
                       fmt::format("The path in the Sandbox, \"{}\", must begin with a slash.", remote.path));
  if (remote_from && remote.path.ends_with('/'))
    return usage_error(console, fmt::format("\"{}\" is a directory; cp copies one file.", from));
  const Result<void> copied = remote_from ? download(api, remote, to) : upload(api, from, remote);
  return copied ? kOk : report(console, copied.error());
}

}  // namespace nodus::cli
