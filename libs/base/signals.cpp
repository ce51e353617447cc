#include "libs/base/signals.hpp"

#include <pthread.h>
#include <signal.h>

namespace nodus {

namespace {
sigset_t termination() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}
}  // namespace

void block_termination() {
  const sigset_t set = termination();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int wait_for_termination() {
  const sigset_t set = termination();
  int received = 0;
  while (sigwait(&set, &received) != 0) {
  }
  return received;
}

}  // namespace nodus
