#include "services/executor/adapters/linux/container_watch.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <vector>

#include "libs/base/check.hpp"

namespace nodus::executor {

ContainerWatch::ContainerWatch()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(epoll_ && wake_);
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_.get()}};
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0);
  thread_ = std::thread([this] { run(); });
}

ContainerWatch::~ContainerWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void ContainerWatch::add(const SlotKey& key, pid_t pid, std::function<void()> ended) {
  linux::UniqueFd pid_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pid_fd) {
    ended();
    return;
  }
  const std::lock_guard lock(mutex_);
  epoll_event event{.events = EPOLLIN, .data = {.fd = pid_fd.get()}};
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pid_fd.get(), &event) == 0, "{}", errno);
  entries_[key] = Entry{std::move(pid_fd), std::move(ended)};
}

void ContainerWatch::remove(const SlotKey& key) {
  const std::lock_guard lock(mutex_);
  entries_.erase(key);  // closing the descriptor takes it out of epoll
}

void ContainerWatch::clear() {
  std::unique_lock lock(mutex_);
  entries_.clear();
  called_.wait(lock, [&] { return !calling_; });
}

void ContainerWatch::run() {
  for (;;) {
    std::array<epoll_event, 16> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    std::vector<std::function<void()>> calls;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (int i = 0; i < count; ++i)
        for (auto it = entries_.begin(); it != entries_.end(); ++it)
          if (it->second.pid_fd.get() == events[static_cast<size_t>(i)].data.fd) {
            calls.push_back(std::move(it->second.ended));
            entries_.erase(it);
            break;
          }
      calling_ = true;
    }
    for (const auto& call : calls) call();
    const std::lock_guard lock(mutex_);
    calling_ = false;
    called_.notify_all();
  }
}

}  // namespace nodus::executor
