// A thread that runs one step again and again: at once when nudged, else after the time the step asks for.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "libs/base/clock.hpp"

namespace nodus::scheduler {

class Loop {
 public:
  explicit Loop(std::function<Millis()> step) : thread_([this, step = std::move(step)] { run(step); }) {}
  ~Loop() { stop(); }
  void stop() {  // returns when the step under way is done; a nudge after it does nothing
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  void nudge() {
    {
      std::lock_guard lock(mutex_);
      nudged_ = true;
    }
    wake_.notify_one();
  }

 private:
  void run(const std::function<Millis()>& step) {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      nudged_ = false;
      lock.unlock();
      const Millis pause = step();
      lock.lock();
      wake_.wait_for(lock, pause, [this] { return nudged_ || stopped_; });
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool nudged_ = false;
  bool stopped_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace nodus::scheduler
