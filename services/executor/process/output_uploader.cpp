#include "services/executor/process/output_uploader.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libs/base/random.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/executor/helper/protocol.hpp"

namespace nodus::executor {

namespace fs = std::filesystem;
namespace pb = nodus::node::v1;

namespace {
constexpr std::string_view kSuffix = ".output";
constexpr Micros kNever = std::chrono::hours(1);
constexpr uint64_t kFairShare = 256 * 1024;  // of one command in one post

uint64_t size_of(const fs::path& path) {
  std::error_code fault;
  const auto size = fs::file_size(path, fault);
  return fault ? 0 : size;
}
}  // namespace

OutputUploader::OutputUploader(UploadOptions options, Post post, std::function<void()> whole)
    : options_(std::move(options)), post_(std::move(post)), whole_(std::move(whole)) {
  thread_ = std::thread([this] { run(); });
}

OutputUploader::~OutputUploader() {
  {
    std::lock_guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

fs::path OutputUploader::link_of(const std::string& uid) const {
  return options_.directory / (uid + std::string(kSuffix));  // a UUID: checked when the command was taken on
}

void OutputUploader::grew(const OutputOwner& owner, const std::shared_ptr<OutputFile>& file) {
  bool hurry = false;
  {
    std::lock_guard hold(mutex_);
    auto& upload = uploads_[owner.process_uid];
    const Micros now = clock_.boot();
    if (!upload.file) {
      upload.owner = owner;
      upload.file = file;
    }
    if (upload.due == Micros(0)) {
      upload.due = now + options_.period;
      hurry = true;  // to hear of the new time
    }
    if (upload.due > now && file->end() - upload.cursor.offset >= options_.hurry_bytes) {
      upload.due = now;
      hurry = true;
    }
    nudged_ = nudged_ || hurry;
  }
  if (hurry) changed_.notify_all();
}

Result<void> OutputUploader::ended(const OutputOwner& owner, const fs::path& path) {
  const uint64_t bytes = size_of(path);
  {
    std::lock_guard hold(mutex_);
    const auto found = uploads_.find(owner.process_uid);
    if (found != uploads_.end() && found->second.ended) return {};
    if (bytes == 0 || waiting_ + bytes > options_.waiting_bytes) {
      if (bytes > 0) log::error("process.output_dropped", {{"process", owner.process_uid}});
      if (found != uploads_.end()) uploads_.erase(found);
      return {};
    }
  }
  if (::link(path.c_str(), link_of(owner.process_uid).c_str()) < 0 && errno != EEXIST)
    return fail(Code::kInternal, "NodeFileFailed",
                std::string("An output cannot be kept for lifecycle: ") + std::strerror(errno) + ".");
  resume(owner);
  return {};
}

void OutputUploader::resume(const OutputOwner& owner) {
  const auto path = link_of(owner.process_uid);
  const uint64_t bytes = size_of(path);
  if (bytes == 0) return;
  std::shared_ptr<OutputFile> file;
  {
    std::lock_guard hold(mutex_);
    const auto found = uploads_.find(owner.process_uid);
    if (found != uploads_.end()) file = found->second.file;
  }
  if (!file) {
    auto opened = OutputFile::open(path);
    if (!opened) {
      log::error("process.output_dropped", {{"process", owner.process_uid}});
      std::error_code ignored;
      fs::remove(path, ignored);
      return;
    }
    file = *opened;
  }
  std::lock_guard hold(mutex_);
  auto& upload = uploads_[owner.process_uid];
  if (upload.ended) return;
  upload.owner = owner;
  upload.file = std::move(file);
  upload.ended = true;
  upload.due = clock_.boot();
  waiting_ += bytes;
  nudged_ = true;
  changed_.notify_all();
}

bool OutputUploader::waits(const std::string& uid) const {
  std::lock_guard hold(mutex_);
  const auto found = uploads_.find(uid);
  return found != uploads_.end() && found->second.ended;
}

// With mutex_ held.
void OutputUploader::finish(const std::string& uid) {
  const auto found = uploads_.find(uid);
  if (found == uploads_.end()) return;
  if (found->second.ended) {
    const auto path = link_of(uid);
    waiting_ -= std::min(waiting_, size_of(path));
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  uploads_.erase(found);
}

// With mutex_ held. What is due, a fair share of each; adjacent pieces of one stream go as one frame.
std::string OutputUploader::encode(std::vector<std::string>& uids, bool& more) {
  pb::ProcessOutputs body;
  body.set_machine(options_.machine);
  const Micros now = clock_.boot();
  size_t bytes = 0;
  for (auto& [uid, upload] : uploads_) {
    if (upload.due == Micros(0) || upload.due > now) continue;
    if (bytes >= options_.post_bytes || uids.size() >= 512) {
      more = true;
      break;
    }
    auto* output = body.add_outputs();
    output->set_process_uid(upload.owner.process_uid);
    output->set_sandbox_uid(upload.owner.sandbox_uid);
    output->set_epoch(upload.owner.epoch);
    output->set_from(upload.kept);
    uint64_t mine = 0;
    OutputFrame frame;
    while (mine < kFairShare) {
      const auto read = upload.file->read(upload.cursor, frame);
      if (!read || !*read) break;
      mine += frame.data.size();
      auto* last = output->frames_size() > 0 ? output->mutable_frames(output->frames_size() - 1) : nullptr;
      if (last && last->stream() == frame.stream && last->offset() + last->data().size() == frame.offset &&
          last->data().size() + frame.data.size() <= helper::kMaxData) {
        last->mutable_data()->append(frame.data);
        continue;
      }
      last = output->add_frames();
      last->set_stream(frame.stream);
      last->set_offset(frame.offset);
      last->set_data(std::move(frame.data));
      frame = {};
    }
    bytes += mine + 256;
    uids.push_back(uid);
  }
  return body.SerializeAsString();
}

// With mutex_ held.
void OutputUploader::apply(const std::string& answer, const std::vector<std::string>& uids) {
  pb::ProcessOutputsKept kept;
  if (!kept.ParseFromString(answer)) kept.Clear();
  std::map<std::string_view, const pb::ProcessOutputKept*> by_uid;
  for (const auto& each : kept.outputs()) by_uid[each.process_uid()] = &each;
  for (const auto& uid : uids) {
    const auto found = uploads_.find(uid);
    const auto said = by_uid.find(uid);
    if (found == uploads_.end()) continue;
    auto& upload = found->second;
    if (said == by_uid.end()) {  // nothing was said of it: again
      upload.cursor = {upload.kept, 0};
      continue;
    }
    if (!said->second->refused().empty()) {
      log::warn("process.output_refused", {{"process", uid}, {"reason", said->second->refused()}});
      if (upload.ended) {
        finish(uid);
        continue;
      }
      upload.kept = upload.cursor.offset;  // its end, when it comes, is all that is left to say
      upload.due = Micros(0);
      continue;
    }
    upload.kept = said->second->kept();
    if (upload.cursor.offset != upload.kept) upload.cursor = {upload.kept, 0};
    const bool all = upload.kept >= upload.file->end();
    if (all && upload.ended)
      finish(uid);
    else if (all)
      upload.due = Micros(0);
    else if (upload.file->end() - upload.kept < options_.hurry_bytes && !upload.ended)
      upload.due = clock_.boot() + options_.period;
  }
}

bool OutputUploader::turn(Micros& wake) {
  std::vector<std::string> uids;
  std::string body;
  bool more = false;
  {
    std::lock_guard hold(mutex_);
    body = encode(uids, more);
    if (uids.empty()) {
      wake = kNever;
      for (const auto& [uid, upload] : uploads_)
        if (upload.due != Micros(0))
          wake = std::min(wake, std::max(upload.due - clock_.boot(), Micros(1'000)));
      return true;
    }
  }
  auto answer = post_(body);
  {
    std::lock_guard hold(mutex_);
    if (answer) {
      apply(*answer, uids);
    } else {
      for (const auto& uid : uids)
        if (const auto found = uploads_.find(uid); found != uploads_.end())
          found->second.cursor = {found->second.kept, 0};
    }
  }
  wake = Micros(0);
  if (answer) whole_();
  return answer.has_value();
}

void OutputUploader::run() {
  static auto failures = metrics::counter("nodus_node_output_posts_failed_total",
                                          "Posts of commands' output that lifecycle did not take");
  Millis pause = options_.first_pause;
  for (;;) {
    {
      std::lock_guard hold(mutex_);
      if (stopping_) return;
      nudged_ = false;
    }
    Micros wake{0};
    const bool well = turn(wake);
    if (!well) {
      failures.add();
      wake = pause + Millis(random_below(pause.count() + 1));
    }
    pause = well ? options_.first_pause : std::min(pause * 2, options_.last_pause);
    if (wake == Micros(0)) continue;
    std::unique_lock hold(mutex_);
    changed_.wait_for(hold, wake, [&] { return stopping_ || (nudged_ && well); });
  }
}

}  // namespace nodus::executor
