#include "libs/eventlog/batcher.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "libs/eventlog/memory_log.hpp"
#include "tests/unit/eventlog/contract.hpp"

namespace nodus::eventlog {
namespace {

using contract::add;

// A log whose run() waits until the gate is open, and which remembers the sizes of its batches.
class GatedLog final : public EventLog {
 public:
  int partitions() const override { return log_->partitions(); }
  std::vector<Result<std::string>> run(std::span<const Work> works) override {
    std::unique_lock lock(mutex_);
    sizes_.push_back(works.size());
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    return log_->run(works);
  }
  Result<std::vector<Result<std::string>>> run_together(std::span<const Work> works,
                                                        const std::function<void(pg::Tx&)>& also) override {
    return log_->run_together(works, also);
  }
  Result<std::vector<Recorded>> read(int p, int64_t after, int limit) override {
    return log_->read(p, after, limit);
  }
  Result<std::vector<Recorded>> read_stream(const std::string& s, int64_t after, int limit) override {
    return log_->read_stream(s, after, limit);
  }
  Result<Head> head(const std::string& stream) override { return log_->head(stream); }
  Result<int64_t> last_position(int partition) override { return log_->last_position(partition); }
  Result<Ages> ages() override { return log_->ages(); }

  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_batches(size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return sizes_.size() >= count; }));
  }
  std::vector<size_t> sizes() {
    std::lock_guard lock(mutex_);
    return sizes_;
  }

 private:
  ManualClock clock_;
  std::unique_ptr<EventLog> log_ = make_memory_log(clock_, 4);
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::vector<size_t> sizes_;
};

TEST(Batcher, TakesWhatWaitsAsOneBatch) {
  GatedLog log;
  std::atomic<int> answered = 0;
  {
    Batcher batcher(log, {.workers = 1, .max_batch = 10, .queue_limit = 100});
    batcher.submit(add("s/0"), [&](auto) { ++answered; });
    log.wait_for_batches(1);
    for (int i = 0; i < 25; ++i)
      batcher.submit(add("s/1"), [&](auto answer) { answered += answer.has_value(); });
    log.open();
  }
  EXPECT_EQ(log.sizes(), (std::vector<size_t>{1, 10, 10, 5}));
  EXPECT_EQ(answered, 26);
}

TEST(Batcher, AFullQueueAnswersAtOnceWithAJitteredRetry) {
  GatedLog log;
  std::atomic<int> answered = 0;
  {
    Batcher batcher(log, {.workers = 1, .max_batch = 10, .queue_limit = 2});
    batcher.submit(add("s/0"), [&](auto) { ++answered; });
    log.wait_for_batches(1);
    for (int i = 0; i < 2; ++i) batcher.submit(add("s/1"), [&](auto) { ++answered; });
    std::set<int> delays;
    for (int i = 0; i < 64; ++i) {
      auto refused = batcher.run(add("s/2"));
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code, Code::kUnavailable);
      EXPECT_EQ(refused.error().reason, "Overloaded");
      delays.insert(refused.error().retry_after_s.value());
    }
    EXPECT_GT(delays.size(), 1u);
    EXPECT_GE(*delays.begin(), 1);
    EXPECT_EQ(answered, 0);
    log.open();
  }
  EXPECT_EQ(answered, 3);  // the destructor answered what was queued
}

TEST(Batcher, ManyCallersEachGetTheirOwnAnswer) {
  GatedLog log;
  log.open();
  Batcher batcher(log, {.workers = 3, .max_batch = 7, .queue_limit = 100});
  std::vector<std::jthread> callers;
  for (int c = 0; c < 16; ++c)
    callers.emplace_back([&, c] {
      for (int i = 1; i <= 20; ++i)
        EXPECT_EQ(batcher.run(add("s/" + std::to_string(c))).value(), std::to_string(i));
    });
}

}  // namespace
}  // namespace nodus::eventlog
