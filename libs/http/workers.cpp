#include "libs/http/workers.hpp"

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

bool Workers::submit(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_ || queue_.size() >= queue_limit_ + idle_) return false;
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void Workers::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    --idle_;
    if (stopped_) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes away outside the lock
    lock.lock();
  }
}

void Workers::stop() {
  std::deque<std::function<void()>> dropped;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(queue_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

asio::awaitable<bool> Workers::run(std::function<void()> work) {
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(bool)>(
      [this](auto handler, std::function<void()> job) {
        // std::function wants a copy; the handler is a move-only continuation of the coroutine.
        auto resume = std::make_shared<decltype(handler)>(std::move(handler));
        const auto executor = asio::get_associated_executor(*resume);
        const auto finish = [resume, executor](bool ran) {
          asio::post(executor, [resume, ran]() mutable { std::move (*resume)(ran); });
        };
        const bool queued = submit([finish, job = std::move(job)] {
          job();
          finish(true);
        });
        if (!queued) finish(false);
      },
      asio::use_awaitable, std::move(work));
}

}  // namespace nodus::http
