#include "services/executor/process/report_outbox.hpp"

#include <algorithm>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"
#include "libs/telemetry/log.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/executor/process/command.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
namespace {
constexpr size_t kReportLimit = 64 * 1024;
constexpr size_t kHeldLimit = 16'384;  // about 8 MiB
constexpr Millis kLongest{60'000};
constexpr Millis kGather{
    5};  // for more that end at once; and whoever reads the output hears of the end first
constexpr std::string_view kSuffix = ".report";
}  // namespace

ReportOutbox::ReportOutbox(OutboxOptions options, Post post, OutputUploader::Post post_output)
    : options_(std::move(options)), post_(std::move(post)), batch_(options_.batch) {
  std::error_code fault;
  fs::create_directories(options_.directory, fault);
  fs::permissions(options_.directory, fs::perms::owner_all, fault);
  CHECK(!fault, "outbox {}: {}", options_.directory.string(), fault.message());
  if (post_output) {
    uploader_ = std::make_unique<OutputUploader>(
        UploadOptions{.directory = options_.directory, .machine = options_.machine}, std::move(post_output),
        [this] { nudge(); });
    for (const auto& name : pending()) {
      node::v1::ProcessReport report;
      const auto bytes = read_small_file(options_.directory / name, kReportLimit);
      if (bytes && report.ParseFromString(*bytes))
        uploader_->resume({report.process_uid(), report.sandbox_uid(), report.epoch()});
    }
  }
  thread_ = std::thread([this] { run(); });
}

ReportOutbox::~ReportOutbox() {
  {
    std::lock_guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();  // it asks the uploader
  uploader_.reset();
  (void)write_held();
}

static std::string encode_report(const EndReport& report) {
  node::v1::ProcessReport message;
  message.set_process_uid(report.process_uid);
  message.set_sandbox_uid(report.sandbox_uid);
  message.set_epoch(report.epoch);
  message.set_reason(report.reason);
  message.set_exit_code(report.exit_code);
  message.set_message(report.message);
  message.set_started_at_us(to_micros(report.started_at));
  message.set_ended_at_us(to_micros(report.ended_at));
  message.set_stdout_bytes(report.stdout_bytes);
  message.set_stderr_bytes(report.stderr_bytes);
  message.set_never_reached(report.never_reached);
  return message.SerializeAsString();
}

Result<void> ReportOutbox::write(const std::string& name, const std::string& bytes) const {
  return write_small_file(options_.directory / name, bytes);
}

void ReportOutbox::nudge() {
  {
    std::lock_guard hold(mutex_);
    nudged_ = true;
  }
  changed_.notify_all();
}

Result<void> ReportOutbox::put(const EndReport& report, const fs::path& output) {
  if (uploader_ && !output.empty()) {
    auto kept = uploader_->ended({report.process_uid, report.sandbox_uid, report.epoch}, output);
    if (!kept) return kept;
  }
  auto written = write(report.process_uid + std::string(kSuffix), encode_report(report));
  if (!written) return written;
  nudge();
  return {};
}

void ReportOutbox::keep(const EndReport& report, const fs::path& output) {
  if (put(report, output) || put(report)) return;
  {
    std::lock_guard hold(mutex_);
    if (held_.size() >= kHeldLimit) {
      log::error("process.report_lost", {{"process", report.process_uid}});
      return;
    }
    held_[report.process_uid + std::string(kSuffix)] = encode_report(report);
    nudged_ = true;
  }
  changed_.notify_all();
}

bool ReportOutbox::write_held() {
  std::lock_guard hold(mutex_);
  while (!held_.empty() && write(held_.begin()->first, held_.begin()->second)) held_.erase(held_.begin());
  return held_.empty();
}

std::vector<std::string> ReportOutbox::pending() const {
  std::vector<std::string> names;
  std::error_code fault;
  for (fs::directory_iterator entry(options_.directory, fault), end; !fault && entry != end;
       entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(kSuffix)) names.push_back(name);  // also of those whose output is on its way
  }
  std::sort(names.begin(), names.end());
  return names;
}

size_t ReportOutbox::waiting() const {
  return pending().size();
}

std::string ReportOutbox::encode(const std::vector<std::string>& names, size_t count) const {
  node::v1::ProcessReports reports;
  reports.set_machine(options_.machine);
  for (size_t i = 0; i < count; ++i) {
    const auto bytes = read_small_file(options_.directory / names[i], kReportLimit);
    node::v1::ProcessReport report;
    if (bytes && report.ParseFromString(*bytes)) *reports.add_reports() = std::move(report);
  }
  return reports.SerializeAsString();
}

// A report that lifecycle will never take must not hold up the others; it is kept for a person to look at.
void ReportOutbox::set_aside(const std::string& name) {
  std::error_code ignored;
  fs::rename(options_.directory / name, options_.directory / (name + ".refused"), ignored);
}

// Answers how long to wait before the next try; zero: there may be more to send.
Millis ReportOutbox::turn(Millis pause) {
  const bool all_written = write_held();
  auto names = pending();
  if (uploader_)
    std::erase_if(names, [&](const std::string& name) {
      return uploader_->waits(name.substr(0, name.size() - kSuffix.size()));
    });
  if (names.empty()) return all_written ? kLongest : pause;
  const size_t count = std::min(names.size(), batch_);
  auto posted = post_(encode(names, count));
  if (posted) {
    std::error_code ignored;
    for (size_t i = 0; i < count; ++i) fs::remove(options_.directory / names[i], ignored);
    batch_ = std::min(options_.batch, batch_ * 2);
    return Millis(0);
  }
  const bool refused = posted.error().code == Code::kBadRequest || posted.error().code == Code::kInvalid;
  if (refused && count == 1) set_aside(names[0]);
  if (refused) batch_ = std::max<size_t>(1, count / 2);
  return refused ? options_.first_pause : pause;
}

void ReportOutbox::run() {
  Millis pause = options_.first_pause;
  for (;;) {
    {
      std::lock_guard hold(mutex_);
      if (stopping_) return;
      nudged_ = false;
    }
    const Millis wait = turn(pause);
    const bool failed = wait > Millis(0) && wait != kLongest;
    pause = failed ? std::min(pause * 2, options_.last_pause) : options_.first_pause;
    std::unique_lock hold(mutex_);
    // After a failure new reports do not hurry the next try.
    const auto jittered = wait + Millis(failed ? random_below(wait.count() + 1) : 0);
    changed_.wait_for(hold, jittered, [&] { return stopping_ || (nudged_ && !failed); });
    changed_.wait_for(hold, kGather, [&] { return stopping_; });
  }
}

}  // namespace nodus::executor
