// One file, in or out, by parts when it is large. Every call is repeated like any other call of the CLI; what
// arrived is compared by SHA-256.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/api.hpp"
#include "cli/local_files.hpp"
#include "cli/names.hpp"

namespace nodus::cli {

constexpr uint64_t kPartBytes = 16u << 20;

// "name: 3.0 of 10.0 MiB, 1.5 MiB/s", once a copy has lasted 2 s.
class Meter {
 public:
  Meter(Console& console, std::string name, std::optional<uint64_t> total);
  ~Meter();
  void at(uint64_t bytes);

 private:
  Console& console_;
  const std::string name_;
  const std::optional<uint64_t> total_;
  const Micros begun_;
  const bool terminal_;  // one line that changes; else a line now and then
  Micros said_{0};
};

// What the API says of a path.
struct RemoteInfo {
  std::string type;  // file, directory, symlink, fifo, socket, device
  uint64_t size = 0;
  mode_t mode = 0;
  timespec mtime{};
  std::string target, etag;
};
struct RemoteEntry {
  std::string name;  // bytes, as the Sandbox says
  RemoteInfo info;
};

class Files {
 public:
  Files(Api& api, std::string sandbox, bool preserve)
      : api_(api), sandbox_(std::move(sandbox)), preserve_(preserve) {}
  bool preserve() const { return preserve_; }

  Result<RemoteInfo> stat(const std::string& path, bool follow);
  Result<void> list(const std::string& path, const std::function<Result<void>(const RemoteEntry&)>& each);
  Result<void> make_directory(const std::string& path, mode_t mode, bool always,
                              std::optional<timespec> mtime);
  Result<void> make_link(const std::string& path, const std::string& target);

  // `file`: any readable descriptor; `name`: for messages.
  Result<void> upload(int file, const std::string& name, const std::string& path);
  // To a file beside `name` in `directory` that then takes its place.
  Result<void> download(const std::string& path, int directory, const std::string& name,
                        const std::string& said, bool follow);
  Result<void> download_to_output(const std::string& path, int output);

 private:
  struct Sink;
  http::ClientRequest request(const std::string& method, const std::string& path,
                              const std::string& more) const;
  std::string attributes(const struct stat& info) const;
  Result<void> upload_whole(int file, const std::string& name, const std::string& path,
                            const struct stat& info);
  Result<void> upload_parts(int file, const std::string& name, const std::string& path,
                            const struct stat& info);
  Result<void> fetch(const std::string& path, Sink& sink);
  Result<void> fetch_range(const std::string& path, Sink& sink, uint64_t from, uint64_t to);
  Api& api_;
  const std::string sandbox_;
  const bool preserve_;
};

}  // namespace nodus::cli
