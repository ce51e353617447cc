// How long changes and Events are kept. One thread; it also gives resource versions to Sandboxes from before
// there were any.
#pragma once

#include <any>

#include "libs/base/clock.hpp"
#include "libs/deadlines/loop.hpp"
#include "libs/eventlog/batcher.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::lifecycle {

struct ChangeKeeping {
  Micros age = std::chrono::hours(1);
  int64_t rows = 1'000'000;  // at most, whatever their age
  Millis poll{10'000};
};

class ChangeKeeper {
 public:
  ChangeKeeper(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock, ChangeKeeping keeping);
  ~ChangeKeeper();  // joins the thread
  // One round, as the thread does it.
  Result<void> step();

 private:
  Result<bool> drop_changes();  // true: there is more to drop
  Result<bool> number_old_ones();
  Result<void> run(std::any note, std::vector<std::string> streams);

  eventlog::Batcher& batcher_;
  pg::Pool& pool_;
  const Clock& clock_;
  const ChangeKeeping keeping_;
  bool numbered_ = false;
  deadlines::Loop loop_;
};

}  // namespace nodus::lifecycle
