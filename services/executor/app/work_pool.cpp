#include "services/executor/app/work_pool.hpp"

namespace nodus::executor {

WorkPool::WorkPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkPool::~WorkPool() {
  stop();
}

void WorkPool::post(std::function<void()> job, Millis delay) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  jobs_.emplace(std::chrono::steady_clock::now() + delay, std::move(job));
  changed_.notify_one();
}

void WorkPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
    changed_.notify_all();
  }
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
}

void WorkPool::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (jobs_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto due = jobs_.begin()->first;
    if (due > std::chrono::steady_clock::now()) {
      changed_.wait_until(lock, due);
      continue;
    }
    auto job = std::move(jobs_.begin()->second);
    jobs_.erase(jobs_.begin());
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

}  // namespace nodus::executor
