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

  // Owns the log partitions whose number is its own, modulo the workers: so workers neither wait for each
  // other's heads nor for each other's commits, and the database flushes their commits together.
  struct Worker {
    std::condition_variable arrived;
    std::deque<Item> queue;
    bool busy = false;  // a batch of this worker's is under way, in its thread or in a caller's
  };

  State(EventLog& given_log, BatcherOptions given)
      : log(given_log), options(given), workers(static_cast<size_t>(given.workers)) {}

  Worker& owner(const Work& work) {
    if (work.streams.empty()) return workers.front();
    auto partition = static_cast<size_t>(partition_of(work.streams.front(), log.partitions()));
    return workers[partition % workers.size()];
  }

  void serve(Worker& own) {
    std::vector<Work> works;
    std::vector<std::function<void(Result<std::string>)>> waiting;
    for (;;) {
      works.clear();
      waiting.clear();
      {
        std::unique_lock lock(mutex);
        own.arrived.wait(lock, [&] { return !own.busy && (stopping || !own.queue.empty()); });
        if (own.queue.empty()) return;
        own.busy = true;
        while (!own.queue.empty() && std::ssize(works) < options.max_batch) {
          works.push_back(std::move(own.queue.front().work));
          waiting.push_back(std::move(own.queue.front().done));
          own.queue.pop_front();
          --queued;
        }
      }
      auto answers = log.run(works);
      release(own);
      for (size_t i = 0; i < waiting.size(); ++i) waiting[i](std::move(answers[i]));
    }
  }

  // A caller that waits anyway may do an idle worker's work itself: two changes of thread less.
  Worker* take_idle(const Work& work) {
    std::lock_guard lock(mutex);
    Worker& worker = owner(work);
    if (stopping || worker.busy || !worker.queue.empty()) return nullptr;
    worker.busy = true;
    return &worker;
  }

  void release(Worker& worker) {
    std::lock_guard lock(mutex);
    worker.busy = false;
    if (stopping || !worker.queue.empty()) worker.arrived.notify_one();
  }

  EventLog& log;
  const BatcherOptions options;
  std::mutex mutex;
  std::vector<Worker> workers;
  int queued = 0;  // in all queues
  bool stopping = false;
  std::vector<std::jthread> threads;
};

Batcher::Batcher(EventLog& log, BatcherOptions options) : state_(std::make_unique<State>(log, options)) {
  CHECK(options.workers > 0 && options.max_batch > 0 && options.queue_limit > 0, "workers {}",
        options.workers);
  for (auto& worker : state_->workers)
    state_->threads.emplace_back([state = state_.get(), &worker] { state->serve(worker); });
}

Batcher::~Batcher() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  for (auto& worker : state_->workers) worker.arrived.notify_all();
  state_->threads.clear();
}

void Batcher::submit(Work work, std::function<void(Result<std::string>)> done) {
  {
    std::lock_guard lock(state_->mutex);
    if (!state_->stopping && state_->queued < state_->options.queue_limit) {
      auto& worker = state_->owner(work);
      worker.queue.push_back({std::move(work), std::move(done)});
      ++state_->queued;
      worker.arrived.notify_one();
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
  if (auto* worker = state_->take_idle(work)) {
    auto answers = state_->log.run({&work, 1});
    state_->release(*worker);
    return std::move(answers.front());
  }
  // Shared: the worker may still be inside set_value() when this thread wakes.
  auto promise = std::make_shared<std::promise<Result<std::string>>>();
  auto answer = promise->get_future();
  submit(std::move(work), [promise](Result<std::string> result) { promise->set_value(std::move(result)); });
  return answer.get();
}

}  // namespace nodus::eventlog
