// Seals the ledger once a day, soon after midnight UTC: a thread of each replica looks every few minutes, and
// who comes second finds nothing to seal.
#pragma once

#include "libs/base/clock.hpp"
#include "libs/deadlines/loop.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::metering {

class Sealer {
 public:
  Sealer(const Clock& clock, pg::Pool& pool) : clock_(clock), pool_(pool), loop_([this] { return step(); }) {}
  void start() { loop_.start(); }
  void stop() { loop_.stop(); }  // returns when the thread has ended
  // Seals if the last seal is of another day. On the caller's thread; start() does this for ever.
  Millis step();

 private:
  const Clock& clock_;
  pg::Pool& pool_;
  deadlines::Loop loop_;
};

}  // namespace nodus::metering
