#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <mutex>
#include <vector>

#include "libs/http/server.hpp"

namespace nodus::http {

namespace asio = boost::asio;

namespace {

struct Waiter {
  explicit Waiter(const asio::any_io_executor& executor) : timer(executor) {}
  asio::steady_timer timer;
  std::atomic<bool> notified = false;
};

// Keys share counters by hash, so that a key costs memory only while something waits for it. Two keys with
// one counter wake each other, which is allowed.
struct Shard {
  std::mutex mutex;
  uint64_t changes = 0;
  std::multimap<std::string, std::shared_ptr<Waiter>> waiting;
};

// A coroutine's place among those that wait. It leaves with the coroutine, also when that is destroyed while
// it waits: its timer must not outlive the server's io_context.
struct Registration {
  Registration(Shard& of_key, std::shared_ptr<void> owner, std::string name,
               const asio::any_io_executor& executor)
      : keep_alive(std::move(owner)),
        shard(of_key),
        key(std::move(name)),
        waiter(std::make_shared<Waiter>(executor)) {}
  ~Registration() {
    std::lock_guard lock(shard.mutex);
    const auto [begin, end] = shard.waiting.equal_range(key);
    const auto mine = std::find_if(begin, end, [&](const auto& entry) { return entry.second == waiter; });
    if (mine != end) shard.waiting.erase(mine);
  }
  Registration(const Registration&) = delete;
  bool enter(uint64_t ticket) {  // false: something changed since the ticket was taken
    std::lock_guard lock(shard.mutex);
    if (shard.changes != ticket) return false;
    shard.waiting.emplace(key, waiter);
    return true;
  }
  const std::shared_ptr<void> keep_alive;
  Shard& shard;
  const std::string key;
  const std::shared_ptr<Waiter> waiter;
};

}  // namespace

struct Waiters::State {
  std::array<Shard, 1024> shards;
  Shard& shard(const std::string& key) { return shards[std::hash<std::string>()(key) % shards.size()]; }
};

Waiters::Waiters() : state_(std::make_shared<State>()) {}
Waiters::~Waiters() = default;

uint64_t Waiters::ticket(const std::string& key) {
  Shard& shard = state_->shard(key);
  std::lock_guard lock(shard.mutex);
  return shard.changes;
}

void Waiters::notify(const std::string& key) {
  Shard& shard = state_->shard(key);
  std::vector<std::shared_ptr<Waiter>> woken;
  {
    std::lock_guard lock(shard.mutex);
    ++shard.changes;
    const auto [begin, end] = shard.waiting.equal_range(key);
    for (auto it = begin; it != end; ++it) woken.push_back(it->second);
    shard.waiting.erase(begin, end);
  }
  for (const auto& waiter : woken) {
    waiter->notified = true;
    asio::post(waiter->timer.get_executor(), [waiter] { waiter->timer.cancel(); });
  }
}

asio::awaitable<bool> Waiters::wait(std::string key, uint64_t ticket, Millis timeout) {
  Registration registration(state_->shard(key), state_, key, co_await asio::this_coro::executor);
  registration.waiter->timer.expires_after(timeout);
  if (!registration.enter(ticket)) co_return true;
  co_await registration.waiter->timer.async_wait(asio::as_tuple(asio::use_awaitable));
  co_return registration.waiter->notified;
}

}  // namespace nodus::http
