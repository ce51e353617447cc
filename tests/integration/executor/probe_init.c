// PID 1 of a test Sandbox, in place of nodus-helper: runs each line it is sent as `sh -c LINE` as uid 1000,
// and answers with the output and "\n#END <exit code>\n". One connection at a time. The line "#get ADDRESS
// PORT" makes a TCP connection instead and prints what comes. Also a program for the machine: `get ADDRESS
// PORT`, and `serve ADDRESS PORT`, which says hello to everybody for half a minute.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int tcp(const char* address, const char* port, struct sockaddr_in* to) {
  const struct timeval limit = {1, 0};
  const int one = 1;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  to->sin_family = AF_INET;
  to->sin_port = htons((unsigned short)atoi(port));
  return inet_pton(AF_INET, address, &to->sin_addr) == 1 ? fd : -1;
}

static int get(const char* address, const char* port) {
  struct sockaddr_in to = {0};
  char buffer[64];
  int fd = tcp(address, port, &to);
  alarm(3);
  if (connect(fd, (void*)&to, sizeof to) != 0) return 1;
  ssize_t got = read(fd, buffer, sizeof buffer);
  return got > 0 && write(1, buffer, (size_t)got) == got ? 0 : 1;
}

static int serve_hello(const char* address, const char* port) {
  struct sockaddr_in at = {0};
  int fd = tcp(address, port, &at);
  alarm(30);
  if (bind(fd, (void*)&at, sizeof at) != 0 || listen(fd, 8) != 0) return 1;
  for (;;) {
    int client = accept(fd, 0, 0);
    if (client >= 0 && write(client, "hello\n", 6) == 6) close(client);
  }
}

static void command(const char* line, int out) {
  dup2(out, 1);
  dup2(out, 2);
  if (out > 2) close(out);
  for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  if (setgroups(0, 0) != 0 || setgid(1000) != 0 || setuid(1000) != 0) _exit(126);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (chdir("/workspace") != 0) _exit(126);
  char address[32];
  char port[8];
  if (sscanf(line, "#get %31s %7s", address, port) == 2) _exit(get(address, port));
  setenv("HOME", "/workspace", 1);
  setenv("PATH", "/bin:/usr/bin:/sbin:/usr/sbin", 1);
  execl("/bin/sh", "sh", "-c", line, (char*)0);
  _exit(127);
}

static void serve(int client) {
  static char line[65536];
  size_t used = 0;
  for (;;) {
    ssize_t got = read(client, line + used, sizeof line - 1 - used);
    if (got <= 0) return;
    used += (size_t)got;
    if (line[used - 1] != '\n') continue;
    line[used - 1] = 0;
    used = 0;
    int pipes[2];
    if (pipe(pipes) != 0) return;
    pid_t child = fork();
    if (child == 0) {
      close(pipes[0]);
      close(client);
      command(line, pipes[1]);
    }
    close(pipes[1]);
    char buffer[65536];
    ssize_t part;
    while (child > 0 && (part = read(pipes[0], buffer, sizeof buffer)) > 0)
      if (write(client, buffer, (size_t)part) < 0) break;
    close(pipes[0]);
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    int code = child < 0 ? 125 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    while (waitpid(-1, 0, WNOHANG) > 0) {
    }
    if (dprintf(client, "\n#END %d\n", code) < 0) return;
  }
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "get") == 0) return get(argv[2], argv[3]);
  if (argc == 4 && strcmp(argv[1], "serve") == 0) return serve_hello(argv[2], argv[3]);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/.run/helper.sock"};
  unlink(address.sun_path);
  if (bind(listener, (void*)&address, sizeof address) != 0 || listen(listener, 4) != 0) {
    perror("bind");
    return 1;
  }
  for (;;) {
    int client = accept4(listener, 0, 0, SOCK_CLOEXEC);
    if (client < 0 && errno != EINTR) return 1;
    if (client >= 0) serve(client);
    if (client >= 0) close(client);
  }
}
