// What follows from the state of organizations and keys, twice a second: Sandboxes of suspended organizations
// are stopped (their files are kept), streams of keys that are no longer in force are cut, and changes of
// what organizations use are folded into sums. Derived from rows, so it does not matter who wrote them.
#pragma once

#include <map>
#include <string>
#include <thread>

#include "libs/base/clock.hpp"
#include "libs/eventlog/batcher.hpp"
#include "libs/pg/connection.hpp"
#include "services/lifecycle/adapters/open_streams.hpp"

namespace nodus::lifecycle {

class TenantKeeper {
 public:
  TenantKeeper(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock, OpenStreams& streams)
      : batcher_(batcher), pool_(pool), clock_(clock), streams_(streams) {}

  void start(Millis every = Millis(500));
  // One round of each; what start() calls.
  Result<int> stop_suspended();  // how many stops were asked for
  Result<int64_t> fold_usage();  // how many changes were folded

 private:
  void run(const std::stop_token& stop, Millis every);

  eventlog::Batcher& batcher_;
  pg::Pool& pool_;
  const Clock& clock_;
  OpenStreams& streams_;
  std::map<std::string, Micros> asked_;  // when a stop was asked for, boot clock; of those that still run
  std::jthread thread_;
};

}  // namespace nodus::lifecycle
