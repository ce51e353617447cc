#include "services/executor/process/file_desk.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <utility>
#include <vector>

namespace nodus::executor {
using boost::asio::awaitable;
using Steady = std::chrono::steady_clock;
namespace {
constexpr Millis kLook{100};  // how often uploads are looked at, while there are any
constexpr int kWorkerEnds_ms = 2'000;

std::unexpected<Error> too_many(const char* message) {
  auto busy = fail(Code::kTooManyRequests, "TooManyRequests", message);
  busy.error().retry_after_s = 1;
  return busy;
}

std::string slot_key(const SlotKey& slot) {
  return slot.sandbox.str() + "/" + std::to_string(slot.epoch);
}
}  // namespace

FileDesk::FileDesk(FileLimits limits) : limits_(limits), janitor_([this] { janitor(); }) {}

FileDesk::~FileDesk() {
  {
    std::lock_guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  janitor_.join();
  for (auto& [key, upload] : uploads_) end_worker(upload);
}

awaitable<Result<std::shared_ptr<void>>> FileDesk::turn(const SlotKey& slot) {
  const std::string key = slot_key(slot);
  const auto until = Steady::now() + limits_.turn;
  for (bool waited = false;; waited = true) {
    const uint64_t ticket = waiters_.ticket(key);
    const auto left = std::chrono::ceil<Millis>(until - Steady::now());
    {
      std::lock_guard hold(mutex_);
      if (waited) --waiting_;
      size_t& running = running_[slot];
      if (running < limits_.at_once) {
        ++running;
        co_return std::shared_ptr<void>(this, [slot, key](FileDesk* desk) {
          {
            std::lock_guard done(desk->mutex_);
            if (--desk->running_[slot] == 0) desk->running_.erase(slot);
          }
          desk->waiters_.notify(key);
        });
      }
      if (waiting_ >= limits_.waiting || left <= Millis(0))
        co_return too_many("Too many file requests of this Sandbox at once; try again.");
      ++waiting_;
    }
    co_await waiters_.wait(key, ticket, left);
  }
}

awaitable<Result<std::shared_ptr<void>>> FileDesk::claim(const std::string& key) {
  const auto until = Steady::now() + limits_.turn;
  for (;;) {
    const uint64_t ticket = waiters_.ticket(key);
    {
      std::lock_guard hold(mutex_);
      if (claimed_.try_emplace(key, 1).second)
        co_return std::shared_ptr<void>(this, [key](FileDesk* desk) {
          {
            std::lock_guard done(desk->mutex_);
            desk->claimed_.erase(key);
          }
          desk->waiters_.notify(key);
        });
    }
    const auto left = std::chrono::ceil<Millis>(until - Steady::now());
    if (left <= Millis(0)) co_return too_many("The same write is still under way; try again.");
    co_await waiters_.wait(key, ticket, left);
  }
}

std::optional<DoneWrite> FileDesk::done(const std::string& key) const {
  std::lock_guard hold(mutex_);
  const auto found = done_.find(key);
  return found == done_.end() ? std::nullopt : std::optional(found->second);
}

void FileDesk::remember(const std::string& key, DoneWrite write) {
  std::lock_guard hold(mutex_);
  if (!done_.insert_or_assign(key, std::move(write)).second) return;
  done_order_.push_back(key);
  if (done_order_.size() <= limits_.answers) return;
  done_.erase(done_order_.front());
  done_order_.pop_front();
}

Result<std::shared_ptr<Upload>> FileDesk::begin_upload(const std::string& key,
                                                       std::shared_ptr<SlotProcesses> slot,
                                                       PutOptions options) {
  auto under_way = slot->begin_file_request();
  if (!under_way) return std::unexpected(under_way.error());
  std::lock_guard hold(mutex_);
  size_t open = 0;
  for (const auto& [_, other] : uploads_) open += other->slot->slot().key == slot->slot().key;
  if (open >= limits_.uploads)
    return too_many("Too many uploads by parts to this Sandbox; end one, or wait.");
  auto upload = std::make_shared<Upload>();
  upload->options = std::move(options);
  upload->slot = std::move(slot);
  upload->under_way = std::move(*under_way);
  upload->in_use = true;
  uploads_[key] = upload;
  changed_.notify_all();
  return upload;
}

std::shared_ptr<Upload> FileDesk::upload(const std::string& key) const {
  std::lock_guard hold(mutex_);
  const auto found = uploads_.find(key);
  if (found == uploads_.end()) return nullptr;
  found->second->in_use = true;
  return found->second;
}

void FileDesk::keep_upload(const std::shared_ptr<Upload>& upload, int fd) {
  std::lock_guard hold(mutex_);
  upload->fd = fd;
  upload->in_use = false;
  upload->used = Steady::now();
}

void FileDesk::drop_upload(const std::string& key) {
  std::shared_ptr<Upload> upload;
  {
    std::lock_guard hold(mutex_);
    const auto found = uploads_.find(key);
    if (found == uploads_.end()) return;
    upload = std::move(found->second);
    uploads_.erase(found);
    if (upload->fd < 0) return;  // its worker has ended
    // Whoever waits for the slot's file requests waits until the worker has cleaned up.
    uploads_["\n" + key] = upload;
    upload->in_use = false;
    upload->used = Steady::time_point::min();
  }
  changed_.notify_all();
}

// The worker notices that nobody writes any more, removes its file, and hangs up.
void FileDesk::end_worker(const std::shared_ptr<Upload>& upload) {
  if (upload->fd < 0) return;
  shutdown(upload->fd, SHUT_WR);
  char byte;
  pollfd ready{upload->fd, POLLIN, 0};
  while (poll(&ready, 1, kWorkerEnds_ms) > 0 && recv(upload->fd, &byte, 1, MSG_DONTWAIT) > 0) {
  }
  close(upload->fd);
  upload->fd = -1;
}

void FileDesk::janitor() {
  std::unique_lock hold(mutex_);
  while (!stopping_) {
    if (uploads_.empty()) {
      changed_.wait(hold, [this] { return stopping_ || !uploads_.empty(); });
      continue;
    }
    std::vector<std::shared_ptr<Upload>> over;
    std::erase_if(uploads_, [&](const auto& entry) {
      const auto& upload = entry.second;
      const bool old = upload->used == Steady::time_point::min() ||
                       Steady::now() - upload->used > limits_.upload_idle ||
                       upload->slot->closed_for() > Millis(0);
      if (upload->in_use || !old) return false;
      over.push_back(upload);
      return true;
    });
    hold.unlock();
    for (auto& upload : over) end_worker(upload);
    over.clear();
    hold.lock();
    changed_.wait_for(hold, kLook, [this] { return stopping_; });
  }
}

}  // namespace nodus::executor
