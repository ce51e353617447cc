// How commands ended, on its way to lifecycle: one small file a report, from the end of the command until
// lifecycle has acknowledged it, whatever becomes of the slot or of nodusd meanwhile. A report sent twice is
// a no-op there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"

namespace nodus::executor {

struct EndReport {
  std::string process_uid;
  std::string sandbox_uid;
  int64_t epoch = 0;
  std::string reason;
  int exit_code = 0;
  std::string message;
  Instant started_at;  // zero: never
  Instant ended_at;
};

struct OutboxOptions {
  std::filesystem::path directory;
  std::string machine;
  size_t batch = 100;
  Millis first_pause{200};  // doubles, jittered
  Millis last_pause{10'000};
};

class ReportOutbox {
 public:
  // Sends an encoded nodus.node.v1.ProcessReports; ok: all of it is acknowledged. Called by the outbox's own
  // thread. BadRequest and Invalid mean that some report will never be taken.
  using Post = std::function<Result<void>(const std::string& body)>;
  ReportOutbox(OutboxOptions options, Post post);
  ~ReportOutbox();

  // On disk when it returns.
  Result<void> put(const EndReport& report);
  // For an end that nobody will repeat: when it cannot be written it is held in memory, and written later.
  void keep(const EndReport& report);
  size_t waiting() const;

 private:
  void run();
  Millis turn(Millis pause);
  Result<void> write(const std::string& name, const std::string& bytes) const;
  bool write_held();  // false: some still cannot be written
  std::vector<std::string> pending() const;
  std::string encode(const std::vector<std::string>& names, size_t count) const;
  void set_aside(const std::string& name);

  const OutboxOptions options_;
  const Post post_;
  size_t batch_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, nudged_ = true;
  std::map<std::string, std::string> held_;  // by file name
  std::thread thread_;
};

}  // namespace nodus::executor
