#include "services/executor/adapters/linux/container_watch.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>

namespace nodus::executor {
namespace {

pid_t start_process() {
  const pid_t pid = ::fork();
  if (pid == 0) ::pause(), ::_exit(0);
  return pid;
}

void end_process(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(ContainerWatch, ClearWaitsForTheCallUnderWay) {
  ContainerWatch watch;
  std::promise<void> begun, release;
  std::atomic<bool> done = false, late = false;
  const pid_t first = start_process(), second = start_process();
  watch.add({SandboxUid("a"), 1}, first, [&] {
    begun.set_value();
    release.get_future().wait();
    done = true;
  });
  watch.add({SandboxUid("b"), 1}, second, [&] { late = true; });
  end_process(first);
  begun.get_future().wait();
  auto cleared = std::async(std::launch::async, [&] {
    watch.clear();
    return done.load();
  });
  EXPECT_EQ(cleared.wait_for(Millis(50)), std::future_status::timeout);
  release.set_value();
  EXPECT_TRUE(cleared.get());
  end_process(second);
  std::promise<void> third_ended;
  const pid_t third = start_process();
  watch.add({SandboxUid("c"), 1}, third, [&] { third_ended.set_value(); });
  end_process(third);
  third_ended.get_future().wait();
  EXPECT_FALSE(late);
}

}  // namespace
}  // namespace nodus::executor
