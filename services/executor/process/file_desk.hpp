// What is remembered between the file requests of a slot: how many are under way, uploads that come by parts,
// and the answers of recent writes for those who ask again. Thread-safe.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "libs/http/server.hpp"
#include "services/executor/process/file_limits.hpp"
#include "services/executor/process/file_stream.hpp"
#include "services/executor/process/slot_processes.hpp"

namespace nodus::executor {

// An upload by parts: a worker of the helper with a file that nobody sees yet.
struct Upload {
  PutOptions options;
  uint64_t offset = 0;  // bytes that the worker has
  std::shared_ptr<SlotProcesses> slot;
  std::shared_ptr<void> under_way;  // the slot is not torn down meanwhile
  int fd = -1;                      // of the worker, between two parts
  bool in_use = false;
  std::chrono::steady_clock::time_point used = std::chrono::steady_clock::now();
};

// A write that was done, under the key that its caller chose.
struct DoneWrite {
  std::string request;  // method and target: another one is another write
  std::string sha256;   // of the body
  std::string answer;   // JSON
};

class FileDesk {
 public:
  explicit FileDesk(FileLimits limits = {});
  ~FileDesk();
  const FileLimits& limits() const { return limits_; }

  // One's turn among the operations of the slot, kept while the token lives. TooManyRequests.
  boost::asio::awaitable<Result<std::shared_ptr<void>>> turn(const SlotKey& slot);

  // The only one who writes under `key` (of the slot) while the token lives; a repeat waits for the first.
  boost::asio::awaitable<Result<std::shared_ptr<void>>> claim(const std::string& key);
  std::optional<DoneWrite> done(const std::string& key) const;
  void remember(const std::string& key, DoneWrite write);

  // Uploads; whoever calls these has claimed the key.
  Result<std::shared_ptr<Upload>> begin_upload(const std::string& key, std::shared_ptr<SlotProcesses> slot,
                                               PutOptions options);
  std::shared_ptr<Upload> upload(const std::string& key) const;     // null: unknown
  void keep_upload(const std::shared_ptr<Upload>& upload, int fd);  // after a part
  void drop_upload(const std::string& key);

 private:
  void janitor();
  static void end_worker(const std::shared_ptr<Upload>& upload);
  const FileLimits limits_;
  http::Waiters waiters_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SlotKey, size_t> running_;
  size_t waiting_ = 0;
  std::map<std::string, int> claimed_;
  std::map<std::string, DoneWrite> done_;
  std::deque<std::string> done_order_;
  std::map<std::string, std::shared_ptr<Upload>> uploads_;
  bool stopping_ = false;
  std::thread janitor_;
};

}  // namespace nodus::executor
