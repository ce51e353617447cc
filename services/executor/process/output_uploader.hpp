// What commands write, on its way off the node: read from the output files, posted to lifecycle each second
// or when 256 KiB wait, repeated until lifecycle says that it is durable. A command's report waits until all
// of its output is there (ReportOutbox).
//
// While a command runs its file is the slot's. When it ends, the file is linked beside the report, so that it
// outlives the slot and a restart of nodusd; the link goes when lifecycle has all of it, or will never take
// it.
#pragma once

#include <condition_variable>
#include <cstdint>
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
#include "services/executor/process/output_file.hpp"

namespace nodus::executor {

struct UploadOptions {
  std::filesystem::path directory;  // of the links: <uid>.output
  std::string machine;
  Millis period{1'000};
  uint64_t hurry_bytes = 256ull << 10;  // of one command: posted at once
  size_t post_bytes = 2ull << 20;       // of output in one post
  uint64_t waiting_bytes = 2ull << 30;  // of ended commands on disk; beyond, the output of more is dropped
  Millis first_pause{200};              // after a failure; doubles, jittered
  Millis last_pause{10'000};
};

// One command, for lifecycle to know it by.
struct OutputOwner {
  std::string process_uid;
  std::string sandbox_uid;
  int64_t epoch = 0;
};

class OutputUploader {
 public:
  // Sends an encoded nodus.node.v1.ProcessOutputs, answers the encoded ProcessOutputsKept. Called by the
  // uploader's own thread.
  using Post = std::function<Result<std::string>(const std::string& body)>;
  // `whole`: a command's output is with lifecycle, or will never be; its report may go.
  OutputUploader(UploadOptions options, Post post, std::function<void()> whole);
  ~OutputUploader();

  // It wrote more. Cheap; called for every piece.
  void grew(const OutputOwner& owner, const std::shared_ptr<OutputFile>& file);
  // It has ended; `path` is its file. From its return the report waits for it (waits()), also after a
  // restart.
  Result<void> ended(const OutputOwner& owner, const std::filesystem::path& path);
  bool waits(const std::string& process_uid) const;
  // At the start, for each report that is found: its output, if it is there, goes on.
  void resume(const OutputOwner& owner);

 private:
  struct Upload {
    OutputOwner owner;
    std::shared_ptr<OutputFile> file;
    OutputFile::Cursor cursor;  // read so far by a post
    uint64_t kept = 0;          // as lifecycle says
    bool ended = false;
    Micros due{0};  // boot time of its next post, when it has something to say
  };
  using Uploads = std::map<std::string, Upload>;

  void run();
  bool turn(Micros& wake);  // false: the post failed
  std::string encode(std::vector<std::string>& uids, bool& more);
  void apply(const std::string& answer, const std::vector<std::string>& uids);
  void finish(const std::string& uid);
  std::filesystem::path link_of(const std::string& uid) const;

  const UploadOptions options_;
  const Post post_;
  const std::function<void()> whole_;
  SystemClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, nudged_ = false;
  Uploads uploads_;
  uint64_t waiting_ = 0;  // bytes of the links
  std::thread thread_;
};

}  // namespace nodus::executor
