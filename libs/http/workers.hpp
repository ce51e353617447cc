// A bounded pool of threads for blocking work. Thread-safe.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nodus::http {

class Workers {
 public:
  Workers(int threads, int queue_limit);
  ~Workers();  // stops
  // Runs `work` on a worker and resumes the caller on its own executor; false at once when the queue is full
  // or the pool has stopped. `work` must not throw.
  boost::asio::awaitable<bool> run(std::function<void()> work);
  // Waits for the work that runs; what is still queued is dropped.
  void stop();

 private:
  bool submit(std::function<void()> work);
  void loop();

  const size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  size_t idle_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace nodus::http
