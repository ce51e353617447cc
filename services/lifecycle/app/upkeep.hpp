// What lifecycle tidies up: ends Processes whose start is over or that their node never heard of, and gives
// the log room ahead. One thread.
#pragma once

#include <map>
#include <string>

#include "libs/base/clock.hpp"
#include "libs/deadlines/loop.hpp"
#include "libs/eventlog/batcher.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::lifecycle {

struct UpkeepOptions {
  Millis poll{500};
  Micros orphan_grace{std::chrono::seconds(30)};  // a node's own report of an end comes first
};

class Upkeep {
 public:
  Upkeep(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock, UpkeepOptions options);
  ~Upkeep();  // joins the thread

 private:
  Millis step();
  Result<void> end_orphans();

  eventlog::Batcher& batcher_;
  pg::Pool& pool_;
  const Clock& clock_;
  const UpkeepOptions options_;
  std::map<std::string, Micros> orphans_;  // Process uid → boot time when first seen; at most one page
  Micros ranges_made_{0};                  // boot time when the log was last given room ahead
  deadlines::Loop loop_;
};

}  // namespace nodus::lifecycle
