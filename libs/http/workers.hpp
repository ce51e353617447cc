// A bounded pool of threads for blocking work. Work waits in lanes (one a tenant) that are served in turn, so
// a lane with much of it does not delay the others; one lane takes up half of the queue at most. Thread-safe.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace nodus::http {

class Workers {
 public:
  Workers(int threads, int queue_limit);
  ~Workers();  // stops
  // Runs `work` on a worker and resumes the caller on its own executor; false at once when the queue is full
  // or the pool has stopped. `work` must not throw.
  boost::asio::awaitable<bool> run(std::function<void()> work, std::string lane = "");
  // Waits for the work that runs; what is still queued is dropped.
  void stop();

 private:
  bool submit(std::function<void()> work, const std::string& lane);
  void loop();
  std::function<void()> take();  // the lock is held, and there is work

  const size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, std::deque<std::function<void()>>> lanes_;  // those with work
  std::deque<std::string> turns_;                                             // their names, the next first
  size_t queued_ = 0;
  size_t idle_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace nodus::http
