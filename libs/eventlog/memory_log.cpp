#include "libs/eventlog/memory_log.hpp"

#include <algorithm>
#include <mutex>

#include "libs/base/check.hpp"
#include "libs/eventlog/batch.hpp"

namespace nodus::eventlog {
namespace {

class MemoryLog final : public EventLog {
 public:
  MemoryLog(const Clock& clock, int partitions) : clock_(clock), logs_(static_cast<size_t>(partitions)) {}

  int partitions() const override { return static_cast<int>(logs_.size()); }

  std::vector<Result<std::string>> run(std::span<const Work> works) override {
    std::vector<Result<std::string>> answers;
    std::vector<Recorded> added;
    {
      std::lock_guard lock(mutex_);
      for (const auto& work : works) answers.push_back(run_one(work, added));
    }
    if (on_commit_ && !added.empty()) on_commit_(added);
    return answers;
  }

  Result<std::vector<Result<std::string>>> run_together(std::span<const Work> works,
                                                        const std::function<void(pg::Tx&)>&) override {
    return run(works);
  }

  Result<std::vector<Recorded>> read(int partition, int64_t after, int limit) override {
    std::lock_guard lock(mutex_);
    const auto& log = logs_.at(static_cast<size_t>(partition));
    auto from = std::min<int64_t>(std::max<int64_t>(after, 0), std::ssize(log));
    auto to = std::min<int64_t>(from + std::max(limit, 0), std::ssize(log));
    return std::vector(log.begin() + from, log.begin() + to);
  }

  Result<std::vector<Recorded>> read_stream(const std::string& stream, int64_t after_version,
                                            int limit) override {
    std::lock_guard lock(mutex_);
    std::vector<Recorded> found;
    for (const auto& event : logs_[static_cast<size_t>(partition_of(stream, partitions()))]) {
      if (std::ssize(found) >= limit) break;
      if (event.stream == stream && event.version > after_version) found.push_back(event);
    }
    return found;
  }

  Result<Head> head(const std::string& stream) override {
    std::lock_guard lock(mutex_);
    auto found = heads_.find(stream);
    return found == heads_.end() ? Head{stream, 0, 0, {}} : found->second;
  }

  Result<int64_t> last_position(int partition) override {
    std::lock_guard lock(mutex_);
    return std::ssize(logs_.at(static_cast<size_t>(partition)));
  }

  Result<Ages> ages() override { return Ages{}; }

 private:
  Result<std::string> run_one(const Work& work, std::vector<Recorded>& added) {
    if (auto refused = refuse(work)) return std::unexpected(std::move(*refused));
    Batch batch(nullptr);
    if (auto it = keys_.find(work.key); it != keys_.end()) batch.add_accepted(work.key, it->second);
    if (auto known = batch.known(work)) return *known;
    for (const auto& stream : work.streams) {
      auto found = heads_.find(stream);
      batch.add_head(found == heads_.end() ? Head{stream, 0, 0, {}} : found->second);
    }
    auto answer = batch.decide(work);
    if (!answer) return answer;
    for (auto& [key, accepted] : batch.accepted) keys_.insert_or_assign(key, accepted);
    for (const auto& stream : batch.changed) heads_.insert_or_assign(stream, batch.heads.at(stream));
    for (auto& event : batch.events) {
      event.partition = partition_of(event.stream, partitions());
      auto& log = logs_[static_cast<size_t>(event.partition)];
      event.position = std::ssize(log) + 1;
      event.at = clock_.now();
      log.push_back(event);
      added.push_back(event);
    }
    return answer;
  }

  const Clock& clock_;
  std::mutex mutex_;
  std::vector<std::vector<Recorded>> logs_;
  std::map<std::string, Head> heads_;
  std::map<std::string, Accepted> keys_;
};

}  // namespace

std::unique_ptr<EventLog> make_memory_log(const Clock& clock, int partitions) {
  CHECK(partitions > 0, "partitions {}", partitions);
  return std::make_unique<MemoryLog>(clock, partitions);
}

}  // namespace nodus::eventlog
