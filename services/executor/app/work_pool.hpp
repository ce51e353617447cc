// A few threads that run jobs, now or later. The queue is bounded by its user: at most one job a slot.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "libs/base/clock.hpp"

namespace nodus::executor {

class WorkPool {
 public:
  explicit WorkPool(int threads);
  ~WorkPool();  // stop()
  void post(std::function<void()> job, Millis delay = Millis(0));
  void stop();  // waits for the jobs that run; drops those that wait

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace nodus::executor
