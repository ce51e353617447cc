// Tells when a container's process ends, by pidfd: no polling, and it works for processes that are not our
// children (those of an earlier nodusd). One thread.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "libs/base/error.hpp"
#include "libs/linux/unique_fd.hpp"
#include "services/executor/domain/slot.hpp"

namespace nodus::executor {

class ContainerWatch {
 public:
  ContainerWatch();
  ~ContainerWatch();
  // `ended` is called once, from the watching thread; at once when there is no such process.
  void add(const SlotKey& key, pid_t pid, std::function<void()> ended);
  void remove(const SlotKey& key);
  void clear();  // removes all; from its return on no `ended` runs. Not to be called by one.

 private:
  struct Entry {
    linux::UniqueFd pid_fd;
    std::function<void()> ended;
  };
  void run();
  linux::UniqueFd epoll_;
  linux::UniqueFd wake_;
  std::mutex mutex_;
  std::map<SlotKey, Entry> entries_;
  bool calling_ = false;
  std::condition_variable called_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace nodus::executor
