// How commands ended, on its way to lifecycle: one small file a report, from the end of the command until
// lifecycle has acknowledged it, whatever becomes of the slot or of nodusd meanwhile. A report sent twice is
// a no-op there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "services/executor/process/output_uploader.hpp"

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
  int64_t stdout_bytes = 0;
  int64_t stderr_bytes = 0;
  bool never_reached = false;  // it was refused before it had been taken on
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
  // With `post_output`, a command's output goes before its report, see output_uploader.hpp.
  ReportOutbox(OutboxOptions options, Post post, OutputUploader::Post post_output = {});
  ~ReportOutbox();

  // On disk when it returns. `output`: the command's output file; it may go afterwards.
  Result<void> put(const EndReport& report, const std::filesystem::path& output = {});
  // For an end that nobody will repeat: when it cannot be written it is held in memory, and written later.
  void keep(const EndReport& report, const std::filesystem::path& output = {});
  // A command that runs wrote more.
  void grew(const OutputOwner& owner, const std::shared_ptr<OutputFile>& file) {
    if (uploader_) uploader_->grew(owner, file);
  }
  size_t waiting() const;

 private:
  void nudge();
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
  std::unique_ptr<OutputUploader> uploader_;
  std::thread thread_;
};

}  // namespace nodus::executor
