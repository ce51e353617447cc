// Money deadlines: a thread that finds what is due in rows, orders stops and records where money ended.
#pragma once

#include <algorithm>
#include <atomic>

#include "libs/base/clock.hpp"
#include "libs/deadlines/loop.hpp"
#include "services/metering/app/works.hpp"

namespace nodus::metering {

// How far the scheduler's facts are known: everything that was published before this instant is applied.
class Watermark {
 public:
  void reached(Instant at) { at_us_.store(std::max(at_us_.load(), to_micros(at))); }  // by one thread
  Instant at() const { return from_micros(at_us_.load()); }

 private:
  std::atomic<int64_t> at_us_{0};
};

struct DeadlineOptions {
  Millis poll{500};                 // nearer ones wake the thread in process
  Micros bus_patience{60'000'000};  // a deadline waits so long for a bus that lags behind it
};

class Deadlines {
 public:
  Deadlines(const Clock& clock, eventlog::EventLog& log, Works& works, DeadlineRows& rows,
            const Watermark& watermark, DeadlineOptions options = {});

  void start() { loop_.start(); }
  void stop() { loop_.stop(); }   // returns when the thread has ended
  void wake() { loop_.nudge(); }  // an account changed; never blocks
  // One turn, on the caller's thread (start() does this for ever). True: there may be more at once.
  Result<bool> run_due();
  bool braked() const { return braked_.load(); }

 private:
  Millis step();
  Result<void> heed_brake();
  Instant horizon() const;
  Result<void> run_all(const std::vector<eventlog::Work>& works);
  Result<void> judge(const std::vector<SlotRef>& slots, Instant at);
  Result<void> judge_balance(const OrgId& org, Instant at);
  Result<void> judge_budget(const ProjectKey& project, Instant at);

  const Clock& clock_;
  eventlog::EventLog& log_;
  Works& works_;
  DeadlineRows& rows_;
  const Watermark& watermark_;
  const DeadlineOptions options_;
  const Instant began_;
  std::atomic<bool> braked_{false};

  deadlines::Loop loop_;
};

}  // namespace nodus::metering
