// Tells lifecycle what keeps Sandboxes awake, for people to see: that one became busy or idle when it stays
// so, and at most twice a minute when it was last used. Nothing is decided by it, so nothing is kept for a
// retry: what could not be told is told with the next change.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "services/executor/app/reconciler.hpp"

namespace nodus::executor {

struct FeedOptions {
  Micros last_used_every = std::chrono::seconds(30);
};

// What is to be told of the slots, given what was told before. Not thread-safe.
class ActivityFeed {
 public:
  explicit ActivityFeed(std::string machine, FeedOptions options = {})
      : machine_(std::move(machine)), options_(options) {}

  // One look. Sends an encoded nodus.node.v1.ActivityReports, if there is news.
  void look(const std::vector<SlotReport>& slots, Micros now,
            const std::function<Result<void>(const std::string& body)>& post);

 private:
  struct Known {
    Activity seen;  // at the last look
    Activity told;
    bool ever = false;
    Micros told_at{0};
  };
  bool is_news(const Known& known, const Activity& activity, Micros now) const;

  const std::string machine_;
  const FeedOptions options_;
  std::map<SlotKey, Known> known_;
};

}  // namespace nodus::executor
