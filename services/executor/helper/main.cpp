// nodus-helper SOCKET [PROCESSES]: PID 1 of a Sandbox. Static, without configuration and environment.
// PROCESSES: how many the commands may start, besides themselves, where the machine does not count them.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "services/executor/helper/helper.hpp"

namespace {
void note_child(int) {
  nodus::helper::child_ended = 1;
}

int fail(const char* what) {
  fprintf(stderr, "nodus-helper: %s: %s\n", what, strerror(errno));
  return 1;
}

int listen_at(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) return errno = ENAMETOOLONG, -1;
  strcpy(address.sun_path, path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  unlink(path);
  umask(0177);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 || listen(fd, 128) < 0) return -1;
  umask(022);
  return fd;
}
}  // namespace

int main(int argc, char** argv) {
  for (int fd; (fd = open("/dev/null", O_RDWR)) >= 0 && fd <= 2;) {
  }  // 0 to 2 are never a socket or a pipe end
  nodus::helper::close_from(3);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Commands inherit the empty set; the helper's own capabilities do not come from it. Needs CAP_SETPCAP.
  for (int capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; ++capability) {
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  signal(SIGPIPE, SIG_IGN);
  struct sigaction wake{};
  wake.sa_handler = note_child;
  sigaction(SIGCHLD, &wake, nullptr);
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGCHLD);
  sigprocmask(SIG_BLOCK, &held, nullptr);
  const int listener = listen_at(argc > 1 ? argv[1] : "/.run/helper.sock");
  if (listener < 0) return fail("cannot listen");
  const int locks = memfd_create("locks", MFD_CLOEXEC);
  if (locks < 0) return fail("cannot make the lock file");
  const int processes = argc > 2 ? atoi(argv[2]) : 0;
  nodus::helper::Helper(listener, locks, processes > 0 ? static_cast<uint32_t>(processes) : 0).run();
}
