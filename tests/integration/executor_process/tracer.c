// A hostile command: tries every way into commands of its user that have not executed yet and may share the
// memory of PID 1. Ends when each way was refused, or open, argv[1] times; prints how often. Before that it
// enters a process of its own that bears the same name: the ways are real.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kWays = 5 };
static int refused[kWays], entered[kWays];

// Name and real user of a process, as /proc tells everybody.
static int is_unborn(int pid) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* user = strstr(text, "\nUid:\t");
  return strncmp(text, "Name:\thelper\n", 13) == 0 && user && (uid_t)atoi(user + 6) == getuid();
}

static int go_in(int way, int pid) {
  char path[64], byte = 0;
  const struct iovec own = {&byte, 1}, other = {(void*)0x400000, 1};
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  errno = 0;
  if (way == 0) return process_vm_readv(pid, &own, 1, &other, 1, 0) >= 0 || errno == EFAULT;
  if (way == 1) return process_vm_writev(pid, &own, 1, &other, 1, 0) >= 0 || errno == EFAULT;
  if (way == 4) return ptrace(PTRACE_SEIZE, pid, 0, 0) == 0;
  const int fd = open(path, way == 2 ? O_RDONLY : O_RDWR);
  const int inside = fd >= 0 && (pread(fd, &byte, 1, 0x400000) > 0 || errno == EFAULT || errno == EIO);
  if (fd >= 0) close(fd);
  return inside;
}

// Tries one way; counts only if the process has not executed, or ended, meanwhile.
static void try_to_enter(int way, int pid) {
  const int inside = go_in(way, pid);
  if (is_unborn(pid)) ++(inside ? entered : refused)[way];
}

static int least_tried(void) {
  int least = 0;
  for (int way = 1; way < kWays; ++way)
    if (refused[way] + entered[way] < refused[least] + entered[least]) least = way;
  return least;
}

static int can_enter_its_own(void) {
  const int pid = fork();
  if (pid == 0) {
    prctl(PR_SET_NAME, "helper");
    for (;;) pause();
  }
  while (!is_unborn(pid)) usleep(1000);
  int ways = 0;
  for (int way = 0; way < kWays; ++way) try_to_enter(way, pid), ways += entered[way];
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  memset(refused, 0, sizeof refused);
  memset(entered, 0, sizeof entered);
  return ways;
}

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? atoi(argv[1]) : 1;
  const time_t limit = time(NULL) + 60;
  const int own = can_enter_its_own();
  printf("ready: %d ways into its own\n", own);
  fflush(stdout);
  int way = 0, pid = getpid();
  // The next process has the next number.
  while (refused[way] + entered[way] < wanted && time(NULL) < limit) {
    for (int next = pid + 1; next < pid + 64; ++next) {
      if (kill(next, 0) < 0 && errno == ESRCH) continue;
      if (next > pid) pid = next;
      while (is_unborn(next)) {
        kill(next, SIGSTOP);
        try_to_enter(way, next);
        if (refused[way] + entered[way] >= wanted) break;
      }
      kill(next, SIGCONT);
      way = least_tried();
    }
  }
  int inside = 0;
  for (int i = 0; i < kWays; ++i) inside += entered[i], printf("way %d: refused %d\n", i, refused[i]);
  printf("entered %d\n", inside);
  return own == 0 ? 3 : inside > 0 ? 2 : refused[way] < wanted ? 1 : 0;
}
