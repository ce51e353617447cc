// What the file operations of a worker share: its connection, descriptors that close themselves, errno to
// FileStatus.
#pragma once

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

#include <string>
#include <string_view>

#include "services/executor/helper/file_protocol.hpp"
#include "services/executor/helper/walk.hpp"

namespace nodus::helper {

extern volatile sig_atomic_t out_of_time;  // set by SIGALRM, which ends a blocking call with EINTR

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(-1); }
  void reset(int fd);
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

class Peer {
 public:
  explicit Peer(int fd);
  void set_patience(int seconds);  // for each step
  // The next frame, valid until the next call; empty when the peer left or talks nonsense.
  std::string_view receive();
  bool send(const std::string& bytes);
  bool reply(const FileReply& reply) { return send(reply_frame(reply)); }
  // Refuses what the peer is still sending: it reads the reply when it sees fit.
  void refuse(const FileReply& reply);

 private:
  int fd_;
  std::string buffer_;
  size_t used_ = 0;
};

FileReply fault(int error);
// Of a path that should be there: below a file there is nothing.
inline FileReply absent(int error) {
  return fault(error == ENOTDIR ? ENOENT : error);
}
FileReply outcome(FileStatus status);
FileInfo info_of(const struct stat& from);
// The name to give to a …at() call with place.directory.
inline const char* name_of(const Place& place) {
  return place.name.empty() ? "." : place.name.c_str();
}
// A regular file, opened for reading without waking anybody at a pipe or device.
FileReply open_regular(const Place& place, Descriptor& file, struct stat& info);
void flush_directory(int directory);  // one that may be entered but not read is flushed later

struct PutRequest {
  std::string path;
  uint64_t most = 0;
  uint8_t flags = 0;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  std::string expected_sha256;
  std::string if_match;
};
struct MakeRequest {
  std::string path;
  uint8_t flags = 0;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  std::string target;  // of a symbolic link; empty: a directory
};

// `locks`: see serve_file.
void put_file(Peer& peer, const PutRequest& request, int locks);
FileReply remove_file(std::string_view path, std::string_view if_match, int locks);
FileReply make_entry(const MakeRequest& request);
void list_directory(Peer& peer, std::string_view path, uint32_t limit, std::string_view after);

}  // namespace nodus::helper
