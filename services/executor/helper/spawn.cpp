#include "services/executor/helper/spawn.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "services/executor/helper/processes.hpp"
#include "services/executor/helper/raw.hpp"
#include "services/executor/helper/terminal.hpp"
#include "services/executor/helper/walk.hpp"

namespace nodus::helper {
namespace {
constexpr size_t kPathEntries = 64;       // of PATH that are tried
constexpr size_t kStackSize = 32u << 10;  // of a child: a path and some frames
constexpr int kStatus = 3;                // in the child

struct KernelAction {  // as the kernel takes it
  void* handler = nullptr;
  unsigned long flags = 0;
  void* restorer = nullptr;
  uint64_t mask = 0;
};

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

// What the child uses of the helper's memory until it has executed: there may be no copy of it.
struct Launch {
  SpawnRequest request;
  Plan plan;
  SpawnLimits limits;
  uint64_t mark;
  int in, out, err, status;  // the child's ends; in < 0: nothing to read
  bool terminal;
  alignas(16) char stack[kStackSize];
};

// From here to exec in the child: raw system calls only. Nothing is allocated or freed, nothing of the
// helper's is written but the child's own stack.

[[noreturn]] void leave(int code) {
  for (;;) raw_call(SYS_exit_group, code);
}

[[noreturn]] void give_up(int status, Stage stage, long fault) {
  const StartFault words{stage, static_cast<int32_t>(-fault)};
  raw_call(SYS_write, status, raw_pointer(&words), sizeof words);
  leave(fault == -ENOENT ? 127 : 126);
}

long limit(int resource, const rlimit& limit) {
  return raw_call(SYS_setrlimit, resource, raw_pointer(&limit));
}

long exec_first(const Plan& plan) {
  long fault = -ENOENT;
  for (const auto& file : plan.files) {
    const long tried = raw_call(SYS_execve, raw_pointer(file.c_str()), raw_pointer(plan.argv.data()),
                                raw_pointer(plan.env.data()));
    if (tried != -ENOENT && tried != -ENOTDIR) fault = tried;
    if (tried != -ENOENT && tried != -ENOTDIR && tried != -EACCES) break;
  }
  return fault;
}

long drop_privileges(const SpawnRequest& request) {
  const long group = request.group, user = request.user;
  long fault = raw_call(SYS_setgroups, 0, 0);
  if (fault == 0) fault = raw_call(SYS_setresgid, group, group, group);
  if (fault == 0) fault = raw_call(SYS_setresuid, user, user, user);
  if (fault == 0) fault = raw_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
  return fault;
}

// By where one arrives, so that no link leads into what is nobody's business. No descriptor but the standard
// ones is open any more.
long enter(const char* directory) {
  if (directory[0] != '/') return -EINVAL;
  if (const long fault = raw_call(SYS_chdir, raw_pointer(directory)); fault < 0) return fault;
  char at[PATH_MAX];
  const long size = raw_call(SYS_getcwd, raw_pointer(at), sizeof at);
  if (size < 0) return size;
  return refused_place(at) ? -EXDEV : 0;
}

// The helper has 0 to 2 open, so that none of its other descriptors is one of those.
bool take_descriptors(const Launch& launch) {
  int in = launch.in;
  if (in < 0) in = static_cast<int>(raw_call(SYS_open, raw_pointer("/dev/null"), O_RDONLY | O_CLOEXEC));
  if (in < 0) raw_call(SYS_close, 0);
  if ((in >= 0 && raw_call(SYS_dup2, in, 0) < 0) || raw_call(SYS_dup2, launch.out, 1) < 0 ||
      raw_call(SYS_dup2, launch.err, 2) < 0)
    return false;
  if (launch.status != kStatus && raw_call(SYS_dup3, launch.status, kStatus, O_CLOEXEC) < 0) return false;
  raw_call(SYS_close_range, kStatus + 1, ~0u);  // they are close-on-exec besides
  return true;
}

int run_child(void* data) {
  const Launch& launch = *static_cast<const Launch*>(data);
  if (!take_descriptors(launch)) leave(126);
  raw_call(SYS_setsid);
  if (launch.terminal)
    if (const long fault = raw_call(SYS_ioctl, 0, TIOCSCTTY, 0); fault < 0)
      give_up(kStatus, Stage::kTerminal, fault);
  // The only one ignored here; what is handled goes back to its default by itself. The mask after that.
  const KernelAction normal{};
  raw_call(SYS_rt_sigaction, SIGPIPE, raw_pointer(&normal), 0, sizeof normal.mask);
  limit(RLIMIT_NOFILE, launch.limits.files);
  if (launch.limits.processes > 0) {
    const rlimit processes{launch.limits.processes, launch.limits.processes};
    if (const long fault = limit(RLIMIT_NPROC, processes)) give_up(kStatus, Stage::kUser, fault);
  }
  limit(kMarkedLimit, mark_limit(launch.mark));  // without it the tree is found by its parents
  if (const long fault = drop_privileges(launch.request)) give_up(kStatus, Stage::kUser, fault);
  if (const long fault = enter(launch.plan.directory)) give_up(kStatus, Stage::kDirectory, fault);
  const uint64_t none = 0;
  raw_call(SYS_rt_sigprocmask, SIG_SETMASK, raw_pointer(&none), 0, sizeof none);
  give_up(kStatus, Stage::kExec, exec_first(launch.plan));
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

StartFault spawn(SpawnRequest request, const SpawnLimits& limits, uint64_t mark, Spawned& spawned) {
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
  auto launch = std::make_shared<Launch>();
  launch->request = std::move(request);
  launch->plan = make_plan(launch->request);
  launch->limits = limits;
  launch->mark = mark;
  launch->terminal = terminal;
  launch->in = terminal ? pipes.terminal.slave : pipes.in[0];
  launch->out = terminal ? pipes.terminal.slave : pipes.out[1];
  launch->err = terminal ? pipes.terminal.slave : pipes.err[1];
  launch->status = pipes.status[1];
  // Never vfork: from its change of user on, the child can be stopped by other processes of that user, and
  // PID 1 would wait for it.
  const int memory = limits.share_memory ? CLONE_VM : 0;
  const pid_t pid = clone(run_child, launch->stack + kStackSize, memory | SIGCHLD, launch.get());
  if (pid < 0) return {Stage::kFork, errno};
  spawned.pid = pid;
  spawned.status = give(pipes.status[0]);
  spawned.in = terminal ? fcntl(pipes.terminal.master, F_DUPFD_CLOEXEC, 3) : give(pipes.in[1]);
  spawned.out[0] = give(terminal ? pipes.terminal.master : pipes.out[0]);
  spawned.out[1] = give(pipes.err[0]);
  spawned.slave = give(pipes.terminal.slave);
  for (int fd : {spawned.status, spawned.in, spawned.out[0], spawned.out[1]})
    if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);  // the only flag that the helper's ends have
  spawned.launch = std::move(launch);
  return {};
}

}  // namespace nodus::helper
