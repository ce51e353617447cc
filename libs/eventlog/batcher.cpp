#include "libs/eventlog/batcher.hpp"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"

namespace nodus::eventlog {

struct Batcher::State {
  struct Item {
    Work work;
    std::function<void(Result<std::string>)> done;
  };

  State(EventLog& given_log, BatcherOptions given) : log(given_log), options(given) {}

  void serve() {
    std::vector<Work> works;
    std::vector<std::function<void(Result<std::string>)>> waiting;
    for (;;) {
      works.clear();
      waiting.clear();
      {
        std::unique_lock lock(mutex);
        arrived.wait(lock, [&] { return stopping || !queue.empty(); });
        if (queue.empty()) return;
        while (!queue.empty() && std::ssize(works) < options.max_batch) {
          works.push_back(std::move(queue.front().work));
          waiting.push_back(std::move(queue.front().done));
          queue.pop_front();
        }
      }
      auto answers = log.run(works);
      for (size_t i = 0; i < waiting.size(); ++i) waiting[i](std::move(answers[i]));
    }
  }

  EventLog& log;
  const BatcherOptions options;
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Item> queue;
  bool stopping = false;
  std::vector<std::jthread> threads;
};

Batcher::Batcher(EventLog& log, BatcherOptions options) : state_(std::make_unique<State>(log, options)) {
  CHECK(options.workers > 0 && options.max_batch > 0 && options.queue_limit > 0, "workers {}",
        options.workers);
  for (int i = 0; i < options.workers; ++i)
    state_->threads.emplace_back([state = state_.get()] { state->serve(); });
}

Batcher::~Batcher() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->arrived.notify_all();
  state_->threads.clear();
}

void Batcher::submit(Work work, std::function<void(Result<std::string>)> done) {
  {
    std::lock_guard lock(state_->mutex);
    if (!state_->stopping && std::ssize(state_->queue) < state_->options.queue_limit) {
      state_->queue.push_back({std::move(work), std::move(done)});
      state_->arrived.notify_one();
      return;
    }
  }
  Error overloaded{
      Code::kUnavailable, "Overloaded", "Too many requests are waiting; try again soon.", {}, {}, {}};
  overloaded.retry_after_s =
      static_cast<int>(1 + random_below(4));  // spread, so that they do not return at once
  done(std::unexpected(std::move(overloaded)));
}

Result<std::string> Batcher::run(Work work) {
  // Shared: the worker may still be inside set_value() when this thread wakes.
  auto promise = std::make_shared<std::promise<Result<std::string>>>();
  auto answer = promise->get_future();
  submit(std::move(work), [promise](Result<std::string> result) { promise->set_value(std::move(result)); });
  return answer.get();
}

}  // namespace nodus::eventlog
