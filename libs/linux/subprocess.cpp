#include "libs/linux/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "libs/linux/system_error.hpp"
#include "libs/linux/unique_fd.hpp"

namespace nodus::linux {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_failure(errno, "pipe2");
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Owns what posix_spawn needs; every call's memory goes with it.
class Spawn {
 public:
  Spawn() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Spawn() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  void open(int fd, const char* path, int flags) {
    ::posix_spawn_file_actions_addopen(&actions_, fd, path, flags, 0600);
  }
  void duplicate(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  // Nothing but 0, 1 and 2 goes to the child: sockets of the HTTP server are not close-on-exec, and a runtime
  // that inherited one would keep the port, or lend it to whoever breaks out.
  int start(pid_t& pid, const Command& command) {
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
    auto environment = command.environment;
    if (const char* path = std::getenv("PATH")) environment.push_back(std::string("PATH=") + path);
    auto argv = pointers(command.argv);
    auto envp = pointers(environment);
    return ::posix_spawnp(&pid, argv[0], &actions_, &attributes_, argv.data(), envp.data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Takes what there is; false at the end.
bool drain(int fd, std::string& into, size_t limit) {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got > 0) {
      const size_t room = limit - std::min(limit, into.size());
      into.append(buffer.data(), std::min(room, static_cast<size_t>(got)));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    return got < 0 && errno == EAGAIN;
  }
}

// True when the process ended in time.
bool wait_for_end(int pid_fd, Pipe& out, Pipe& err, Outcome& outcome, const Command& command) {
  const auto until = SteadyClock::now() + command.deadline;
  for (;;) {
    const auto left = std::chrono::ceil<Millis>(until - SteadyClock::now());
    if (left.count() <= 0 || (command.cancelled && command.cancelled())) return false;
    constexpr Millis kLook{200};
    const Millis time = command.cancelled ? std::min(left, kLook) : left;
    std::array<pollfd, 3> fds{pollfd{pid_fd, POLLIN, 0}, pollfd{out.read_end.get(), POLLIN, 0},
                              pollfd{err.read_end.get(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(time.count())) < 0 && errno != EINTR) return false;
    if (out.read_end && fds[1].revents != 0 && !drain(out.read_end.get(), outcome.out, command.output_limit))
      out.read_end.reset();
    if (err.read_end && fds[2].revents != 0 && !drain(err.read_end.get(), outcome.err, command.output_limit))
      err.read_end.reset();
    if (fds[0].revents == 0) continue;
    // What it left behind may hold the pipes open: take what is there and do not wait for their end.
    if (out.read_end) drain(out.read_end.get(), outcome.out, command.output_limit);
    if (err.read_end) drain(err.read_end.get(), outcome.err, command.output_limit);
    return true;
  }
}

}  // namespace

Result<Outcome> run(const Command& command) {
  Spawn spawn;
  Pipe out;
  Pipe err;
  spawn.open(0, "/dev/null", O_RDONLY);
  if (command.output_file.empty()) {
    auto out_pipe = make_pipe();
    auto err_pipe = make_pipe();
    if (!out_pipe) return std::unexpected(out_pipe.error());
    if (!err_pipe) return std::unexpected(err_pipe.error());
    out = std::move(*out_pipe);
    err = std::move(*err_pipe);
    spawn.duplicate(out.write_end.get(), 1);
    spawn.duplicate(err.write_end.get(), 2);
  } else {
    spawn.open(1, command.output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND);
    spawn.duplicate(1, 2);
  }
  pid_t pid = -1;
  if (const int error = spawn.start(pid, command); error != 0)
    return system_failure(error, "start", command.argv[0]);
  out.write_end.reset();
  err.write_end.reset();

  Outcome outcome;
  const UniqueFd pid_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const bool in_time = wait_for_end(pid_fd.get(), out, err, outcome, command);
  if (!in_time) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time)
    return fail(Code::kDeadlineExceeded, "CommandTimedOut",
                command.argv[0] + " did not end within " + std::to_string(command.deadline.count()) + " ms.");
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Result<Outcome> run_checked(const Command& command) {
  auto outcome = run(command);
  if (!outcome || outcome->exit_code == 0) return outcome;
  const std::string& text = outcome->err.empty() ? outcome->out : outcome->err;
  const size_t keep = std::min<size_t>(text.size(), 1000);
  return fail(Code::kInternal, "CommandFailed",
              command.argv[0] + " ended with exit code " + std::to_string(outcome->exit_code) + ": " +
                  text.substr(text.size() - keep));
}

}  // namespace nodus::linux
