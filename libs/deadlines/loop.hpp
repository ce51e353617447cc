// A thread that runs one step again and again: at once when nudged, else after the time the step asks for.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "libs/base/clock.hpp"

namespace nodus::deadlines {

class Loop {
 public:
  // `rest`: the least time between two steps, so that one look serves many nudges.
  explicit Loop(std::function<Millis()> step, Millis rest = Millis(0))
      : step_(std::move(step)), rest_(rest) {}
  ~Loop() { stop(); }
  void start() {
    thread_ = std::thread([this] { run(); });
  }
  void stop() {  // returns when the step under way is done; a nudge after it does nothing
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  void nudge() {  // never blocks; one before start() is not lost
    {
      std::lock_guard lock(mutex_);
      nudged_ = true;
    }
    wake_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      nudged_ = false;
      lock.unlock();
      const Millis pause = step_();
      lock.lock();
      if (rest_ > Millis(0)) wake_.wait_for(lock, rest_, [this] { return stopped_; });
      wake_.wait_for(lock, pause - rest_, [this] { return nudged_ || stopped_; });
    }
  }

  const std::function<Millis()> step_;
  const Millis rest_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool nudged_ = false;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace nodus::deadlines
