#include "services/lifecycle/adapters/change_feed.hpp"

#include <algorithm>

#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr int kPage = 500;

size_t weight(const Heard& heard) {
  return 4 * (heard.change.object.size() + heard.change.was.size()) + 512;
}

metrics::Gauge watches() {
  return metrics::gauge("nodus_lifecycle_watches", "Watches that are open");
}

}  // namespace

std::optional<HeardPtr> parse_change(Change change) {
  boost::system::error_code fault;
  auto object = json::parse(change.object, fault);
  if (fault || !object.is_object()) return std::nullopt;
  json::object was;
  if (!change.was.empty()) {
    auto value = json::parse(change.was, fault);
    if (fault || !value.is_object()) return std::nullopt;
    was = std::move(value.get_object());
  }
  return std::make_shared<const Heard>(std::move(change), std::move(object.get_object()), std::move(was));
}

ChangeFeed::ChangeFeed(Catalog& catalog, http::Waiters& waiters, FeedOptions options)
    : catalog_(catalog), waiters_(waiters), options_(options), thread_([this] { run(); }) {}

ChangeFeed::~ChangeFeed() {
  close();
}

void ChangeFeed::nudge() {
  {
    std::lock_guard lock(mutex_);
    if (watching_ == 0 || nudged_) return;
    nudged_ = true;
  }
  changed_.notify_one();
}

void ChangeFeed::close() {
  std::map<std::string, int> keys;
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    keys = by_key_;
  }
  changed_.notify_one();
  for (const auto& [key, seats] : keys) waiters_.notify(key);
  if (thread_.joinable()) thread_.join();
}

bool ChangeFeed::closing() const {
  std::lock_guard lock(mutex_);
  return closing_;
}

ChangeFeed::Seat::~Seat() {
  if (!feed_) return;
  {
    std::lock_guard lock(feed_->mutex_);
    --feed_->watching_;
    if (--feed_->by_org_[org_] == 0) feed_->by_org_.erase(org_);
    if (--feed_->by_key_[key_] == 0) feed_->by_key_.erase(key_);
  }
  watches().add(-1);
}

std::optional<ChangeFeed::Seat> ChangeFeed::seat(const std::string& org, const std::string& key) {
  {
    std::lock_guard lock(mutex_);
    const auto own = by_org_.find(org);
    if (closing_ || watching_ >= options_.watches ||
        (own != by_org_.end() && own->second >= std::max(1, options_.watches / 4)))
      return std::nullopt;
    if (watching_++ == 0) fresh_ = false;  // nobody listened: what the ring holds has a gap after it
    ++by_org_[org];
    ++by_key_[key];
    nudged_ = true;
  }
  watches().add(1);
  changed_.notify_one();
  return Seat(*this, org, key);
}

std::string ChangeFeed::key(const std::string& project, const std::string& resource) {
  return "watch/" + project + "/" + resource;
}

std::optional<ChangeFeed::Part> ChangeFeed::after(int64_t cursor, const std::string& project,
                                                  const std::string& resource) const {
  std::lock_guard lock(mutex_);
  if (!fresh_ || cursor < first_) return std::nullopt;
  Part out{{}, std::max(cursor, last_)};
  const auto from = std::ranges::upper_bound(ring_, cursor, {},
                                             [](const HeardPtr& heard) { return heard->change.position; });
  for (auto it = from; it != ring_.end(); ++it)
    if ((*it)->change.project == project && (*it)->change.resource == resource) out.changes.push_back(*it);
  return out;
}

// True: there is more to read.
bool ChangeFeed::read_more() {
  int64_t from = 0;
  bool fresh = false;
  {
    std::lock_guard lock(mutex_);
    from = last_;
    fresh = fresh_;
  }
  // Whoever comes first begins at the present; what is before that is read from the database.
  auto page = catalog_.changes(ProjectId(), "", fresh ? from : INT64_MAX, kPage);
  if (!page) {
    log::warn("watch.read_failed", {{"reason", page.error().reason}});
    return false;
  }
  std::vector<HeardPtr> heard;
  std::vector<std::string> keys;
  for (auto& change : page->changes) {
    keys.push_back(key(change.project, change.resource));
    if (auto parsed = parse_change(std::move(change))) heard.push_back(std::move(*parsed));
  }
  {
    std::lock_guard lock(mutex_);
    if (!fresh) {
      ring_.clear();
      bytes_ = 0;
      first_ = page->last;
      fresh_ = true;
    }
    last_ = page->last;
    for (auto& one : heard) {
      bytes_ += weight(*one);
      ring_.push_back(std::move(one));
    }
    while (ring_.size() > options_.ring || bytes_ > options_.ring_bytes) {
      bytes_ -= weight(*ring_.front());
      first_ = ring_.front()->change.position;
      ring_.pop_front();
    }
  }
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  for (const auto& one : keys) waiters_.notify(one);
  return page->more;
}

void ChangeFeed::run() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (watching_ == 0)
      changed_.wait(lock, [&] { return closing_ || nudged_; });
    else
      changed_.wait_for(lock, options_.poll, [&] { return closing_ || nudged_; });
    nudged_ = false;
    if (closing_ || watching_ == 0) continue;
    lock.unlock();
    while (read_more()) {
    }
    lock.lock();
  }
}

}  // namespace nodus::lifecycle
