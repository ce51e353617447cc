#include "services/executor/helper/spawn.hpp"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "services/executor/helper/processes.hpp"
#include "services/executor/helper/terminal.hpp"
#include "services/executor/helper/walk.hpp"

namespace nodus::helper {
namespace {
constexpr size_t kPathEntries = 64;  // of PATH that are tried

struct Pipes {
  int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, status[2] = {-1, -1};  // read, write
  Terminal terminal;
  ~Pipes() {
    for (int* ends : {in, out, err, status})
      for (int i : {0, 1})
        if (ends[i] >= 0) close(ends[i]);
    if (terminal.master >= 0) close(terminal.master);
    if (terminal.slave >= 0) close(terminal.slave);
  }
};

int give(int& fd) {
  const int given = fd;
  fd = -1;
  return given;
}

void nonblocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

[[noreturn]] void give_up(int status, Stage stage, int error) {
  const StartFault fault{stage, error};
  (void)!write(status, &fault, sizeof fault);
  _exit(error == ENOENT ? 127 : 126);
}

std::string_view path_of(const std::vector<std::string>& env) {
  for (const auto& entry : env)
    if (entry.starts_with("PATH=")) return std::string_view(entry).substr(5);
  return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

// What the child needs, made before it exists: there is nothing that it could allocate in vain.
struct Plan {
  std::vector<std::string> files;  // to try in this order
  std::vector<char*> argv, env;
  const char* directory;
};

Plan make_plan(const SpawnRequest& request) {
  Plan plan;
  const std::string& name = request.argv[0];
  if (name.find('/') != name.npos) {
    plan.files.push_back(name);
  } else {
    auto rest = path_of(request.env);
    for (bool more = !name.empty(); more && plan.files.size() < kPathEntries;) {
      const size_t colon = rest.find(':');
      more = colon != rest.npos;
      const auto directory = rest.substr(0, colon);
      if (more) rest.remove_prefix(colon + 1);
      plan.files.push_back(directory.empty() ? name : std::string(directory) + "/" + name);
    }
  }
  for (const auto& value : request.argv) plan.argv.push_back(const_cast<char*>(value.c_str()));
  for (const auto& value : request.env) plan.env.push_back(const_cast<char*>(value.c_str()));
  plan.argv.push_back(nullptr), plan.env.push_back(nullptr);
  plan.directory = request.directory.empty() ? "/" : request.directory.c_str();
  return plan;
}

// From here to exec in the child: system calls only, nothing is allocated or freed.

int exec_first(const Plan& plan) {
  int fault = ENOENT;
  for (const auto& file : plan.files) {
    execve(file.c_str(), plan.argv.data(), plan.env.data());
    if (errno != ENOENT && errno != ENOTDIR) fault = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  return fault;
}

void drop_privileges(const SpawnRequest& request, int status) {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (setgroups(0, nullptr) < 0 || setresgid(request.group, request.group, request.group) < 0 ||
      setresuid(request.user, request.user, request.user) < 0)
    give_up(status, Stage::kUser, errno);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) give_up(status, Stage::kUser, errno);
}

// By where one arrives, so that no link leads into what is nobody's business. No descriptor but the standard
// ones is open any more.
int enter(const char* directory) {
  if (directory[0] != '/') return EINVAL;
  if (chdir(directory) < 0) return errno;
  char at[PATH_MAX];
  const long size = syscall(SYS_getcwd, at, sizeof at);
  if (size < 0) return errno;
  return refused_place(at) ? EXDEV : 0;
}

[[noreturn]] void run_child(const SpawnRequest& request, const Plan& plan, const SpawnLimits& limits,
                            uint64_t mark, const Pipes& pipes) {
  // Above the standard descriptors, so that they can be replaced without care for the order.
  const int slave = pipes.terminal.slave;
  int status = fcntl(pipes.status[1], F_DUPFD_CLOEXEC, 16);
  int in = slave >= 0 ? slave : pipes.in[0] >= 0 ? pipes.in[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
  in = in < 0 ? -1 : fcntl(in, F_DUPFD_CLOEXEC, 16);
  const int out = fcntl(slave >= 0 ? slave : pipes.out[1], F_DUPFD_CLOEXEC, 16);
  const int err = fcntl(slave >= 0 ? slave : pipes.err[1], F_DUPFD_CLOEXEC, 16);
  if (in < 0) close(0);
  if (status < 0 || out < 0 || err < 0 || (in >= 0 && dup2(in, 0) < 0) || dup2(out, 1) < 0 ||
      dup2(err, 2) < 0 || dup2(status, 3) < 0)
    _exit(126);
  fcntl(3, F_SETFD, FD_CLOEXEC);
  close_from(4);
  status = 3;
  setsid();
  if (slave >= 0 && ioctl(0, TIOCSCTTY, 0) < 0) give_up(status, Stage::kTerminal, errno);
  struct sigaction normal{};
  normal.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &normal, nullptr);  // the only one ignored here
  sigaction(SIGCHLD, &normal, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setrlimit(RLIMIT_NOFILE, &limits.files);
  if (limits.processes > 0) {
    const rlimit processes{limits.processes, limits.processes};
    if (setrlimit(RLIMIT_NPROC, &processes) < 0) give_up(status, Stage::kUser, errno);
  }
  set_mark(mark);
  umask(022);
  drop_privileges(request, status);
  if (const int fault = enter(plan.directory)) give_up(status, Stage::kDirectory, fault);
  give_up(status, Stage::kExec, exec_first(plan));
}
}  // namespace

void close_from(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
#endif
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  for (rlim_t fd = first; fd < files.rlim_cur && fd < 65536; ++fd) close(static_cast<int>(fd));
}

StartFault spawn(const SpawnRequest& request, const SpawnLimits& limits, uint64_t mark, Spawned& spawned) {
  Pipes pipes;
  if (request.argv.empty()) return {Stage::kExec, ENOENT};
  if (request.user == 0) return {Stage::kUser, EPERM};
  const bool terminal = request.terminal;
  const bool with_stdin = !terminal && (!request.stdin_bytes.empty() || request.stdin_open);
  if (pipe2(pipes.status, O_CLOEXEC) < 0 || (with_stdin && pipe2(pipes.in, O_CLOEXEC) < 0) ||
      (!terminal && (pipe2(pipes.out, O_CLOEXEC) < 0 || pipe2(pipes.err, O_CLOEXEC) < 0)))
    return {Stage::kFork, errno};
  if (terminal && !open_terminal(request.user, request.group, request.rows, request.columns, pipes.terminal))
    return {Stage::kTerminal, errno};
  const Plan plan = make_plan(request);
  // Never vfork: from its change of user on, the child can be stopped by other processes of that user, and
  // PID 1 would wait for it.
  const pid_t pid = fork();
  if (pid == 0) run_child(request, plan, limits, mark, pipes);
  if (pid < 0) return {Stage::kFork, errno};
  spawned.pid = pid;
  spawned.status = give(pipes.status[0]);
  spawned.in = terminal ? fcntl(pipes.terminal.master, F_DUPFD_CLOEXEC, 3) : give(pipes.in[1]);
  spawned.out[0] = give(terminal ? pipes.terminal.master : pipes.out[0]);
  spawned.out[1] = give(pipes.err[0]);
  spawned.slave = give(pipes.terminal.slave);
  for (int fd : {spawned.status, spawned.in, spawned.out[0], spawned.out[1]})
    if (fd >= 0) nonblocking(fd);
  return {};
}

}  // namespace nodus::helper
