#include "libs/http/workers.hpp"

#include <algorithm>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <utility>

namespace nodus::http {

namespace asio = boost::asio;

Workers::Workers(int threads, int queue_limit) : queue_limit_(static_cast<size_t>(queue_limit)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
}

Workers::~Workers() {
  stop();
}

bool Workers::submit(std::function<void()> work, const std::string& lane) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_ || queued_ >= queue_limit_ + idle_) return false;
    auto& queue = lanes_[lane];
    if (!queue.empty() && queue.size() >= std::max<size_t>(1, queue_limit_ / 2) + idle_) return false;
    if (queue.empty()) turns_.push_back(lane);
    queue.push_back(std::move(work));
    ++queued_;
  }
  changed_.notify_one();
  return true;
}

void Workers::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopped_ || queued_ > 0; });
    --idle_;
    if (stopped_) return;
    std::function<void()> work = take();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes away outside the lock
    lock.lock();
  }
}

// The first of the lane whose turn it is.
std::function<void()> Workers::take() {
  const std::string lane = std::move(turns_.front());
  turns_.pop_front();
  const auto it = lanes_.find(lane);
  std::function<void()> work = std::move(it->second.front());
  it->second.pop_front();
  --queued_;
  if (it->second.empty())
    lanes_.erase(it);
  else
    turns_.push_back(lane);
  return work;
}

void Workers::stop() {
  decltype(lanes_) dropped;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    queued_ = 0;
    turns_.clear();
    dropped.swap(lanes_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

asio::awaitable<bool> Workers::run(std::function<void()> work, std::string lane) {
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(bool)>(
      [this, &lane](auto handler, std::function<void()> job) {
        // std::function wants a copy; the handler is a move-only continuation of the coroutine.
        auto resume = std::make_shared<decltype(handler)>(std::move(handler));
        const auto executor = asio::get_associated_executor(*resume);
        const auto finish = [resume, executor](bool ran) {
          asio::post(executor, [resume, ran]() mutable { std::move (*resume)(ran); });
        };
        const bool queued = submit(
            [finish, job = std::move(job)] {
              job();
              finish(true);
            },
            lane);
        if (!queued) finish(false);
      },
      asio::use_awaitable, std::move(work));
}

}  // namespace nodus::http
