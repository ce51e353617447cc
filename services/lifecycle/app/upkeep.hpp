// What lifecycle tidies up: the log is given room ahead. One thread.
#pragma once

#include "libs/base/clock.hpp"
#include "libs/deadlines/loop.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::lifecycle {

struct UpkeepOptions {
  Millis poll{500};
};

class Upkeep {
 public:
  Upkeep(pg::Pool& pool, const Clock& clock, UpkeepOptions options);
  ~Upkeep();  // joins the thread

 private:
  Millis step();

  pg::Pool& pool_;
  const Clock& clock_;
  const UpkeepOptions options_;
  Micros ranges_made_{0};  // boot time when the log was last given room ahead
  deadlines::Loop loop_;
};

}  // namespace nodus::lifecycle
