// The clock of lifecycle: one thread that sends due deadlines as commands, gives the log room ahead, and ends
// Processes whose start is over. Rows are derived from state, so a deadline that fires twice, late or after a
// restart does the same. Never early.
#pragma once

#include <map>
#include <stop_token>
#include <string>
#include <thread>

#include "libs/base/clock.hpp"
#include "libs/eventlog/batcher.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::lifecycle {

struct DeadlineOptions {
  Millis poll{500};
  Micros orphan_grace{std::chrono::seconds(30)};  // a node's own report of an end comes first
};

class Deadlines {
 public:
  Deadlines(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock, DeadlineOptions options);
  ~Deadlines();  // joins the thread

 private:
  void run(const std::stop_token& stop);
  Result<int> fire_due();
  Result<void> end_orphans();

  eventlog::Batcher& batcher_;
  pg::Pool& pool_;
  const Clock& clock_;
  DeadlineOptions options_;
  std::map<std::string, Micros> orphans_;  // Process uid → boot time when first seen; at most one page
  Micros ranges_made_{0};                  // boot time when the log was last given room ahead
  std::jthread thread_;
};

}  // namespace nodus::lifecycle
