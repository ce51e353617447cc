// Collects Works from many callers and runs what waits as one batch: durable commits are the scarce thing.
// Each worker owns some log partitions; a Work goes to the owner of its first stream's, so name the busiest
// stream first.
#pragma once

#include <functional>
#include <memory>

#include "libs/eventlog/event_log.hpp"

namespace nodus::eventlog {

struct BatcherOptions {
  int workers = 2;
  int max_batch = 256;
  int queue_limit = 4096;  // beyond it submit answers Unavailable/Overloaded with a jittered retry_after_s
};

class Batcher {
 public:
  Batcher(EventLog& log, BatcherOptions options);
  ~Batcher();  // answers what is queued, then stops

  // `done` is called once: on a worker thread, or, when the queue is full, at once on the calling thread.
  void submit(Work work, std::function<void(Result<std::string>)> done);
  // Blocks. When nothing waits, the calling thread runs the Work itself.
  Result<std::string> run(Work work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nodus::eventlog
