// The changes that were committed, kept in memory for those who watch: read once for all of them, so that a
// watcher costs something when something happens, not while nothing does. Older ones are in the database.
#pragma once

#include <boost/json.hpp>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libs/http/server.hpp"
#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

struct FeedOptions {
  Millis poll{250};    // other replicas commit too; only while somebody watches
  size_t ring = 4096;  // changes in memory
  size_t ring_bytes = 16 * 1024 * 1024;
  Seconds bookmark{60};   // between two, to watchers who asked for them
  Seconds check{10};      // how soon a client that left is noticed
  Seconds longest{3600};  // a watch is ended, with a bookmark, after this or half of it
  int watches = 2048;     // at once; of one organization a quarter of them
};

struct Heard {
  Change change;
  boost::json::object object;  // parsed
  boost::json::object was;
};
using HeardPtr = std::shared_ptr<const Heard>;
std::optional<HeardPtr> parse_change(Change change);

class ChangeFeed {
 public:
  ChangeFeed(Catalog& catalog, http::Waiters& waiters, FeedOptions options);
  ~ChangeFeed();  // close() first

  void nudge();  // something was committed; any thread, cheap
  void close();  // ends all watches, then the thread

  // A watcher's place; nothing when there is none left. It ends with the object.
  class Seat {
   public:
    Seat(ChangeFeed& feed, std::string org, std::string key)
        : feed_(&feed), org_(std::move(org)), key_(std::move(key)) {}
    Seat(Seat&& other) noexcept
        : feed_(std::exchange(other.feed_, nullptr)),
          org_(std::move(other.org_)),
          key_(std::move(other.key_)) {}
    Seat& operator=(Seat&&) = delete;
    ~Seat();

   private:
    ChangeFeed* feed_;
    std::string org_;
    std::string key_;
  };
  std::optional<Seat> seat(const std::string& org, const std::string& key);

  struct Part {
    std::vector<HeardPtr> changes;  // of one kind of one project
    int64_t cursor = 0;             // everything up to here was looked at
  };
  // What came after `cursor`; nullopt: that is not in memory (any more, or yet): read the database.
  std::optional<Part> after(int64_t cursor, const std::string& project, const std::string& resource) const;
  static std::string key(const std::string& project, const std::string& resource);  // of Waiters
  bool closing() const;
  const FeedOptions& options() const { return options_; }

 private:
  void run();
  bool read_more();

  Catalog& catalog_;
  http::Waiters& waiters_;
  const FeedOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool nudged_ = false;
  bool closing_ = false;
  int watching_ = 0;
  std::map<std::string, int> by_org_;
  std::map<std::string, int> by_key_;
  bool fresh_ = false;  // first_ and last_ hold
  int64_t first_ = 0;   // the ring has everything after this
  int64_t last_ = 0;    // up to this
  size_t bytes_ = 0;
  std::deque<HeardPtr> ring_;
  std::thread thread_;
};

}  // namespace nodus::lifecycle
