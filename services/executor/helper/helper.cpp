#include "services/executor/helper/helper.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "services/executor/helper/file_protocol.hpp"
#include "services/executor/helper/files.hpp"
#include "services/executor/helper/processes.hpp"

namespace nodus::helper {
namespace {
constexpr size_t kMostStrangers = 32;
constexpr uint64_t kHello_ms = 5'000, kWorker_ms = kFileWorker_s * 1'000ull + 60'000;
constexpr size_t kOutWanted = 512u << 10;  // output is added to the send buffer below this
constexpr size_t kStdinMost = 32u << 20;   // of all commands, waiting to be read by them
constexpr size_t kOutMost = 8u << 20;      // a peer that lets this pile up is cut off

std::string random_instance() {
  unsigned char bytes[8] = {};
  (void)!getrandom(bytes, sizeof bytes, 0);
  std::string text;
  for (unsigned char byte : bytes) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return text;
}
}  // namespace

volatile sig_atomic_t child_ended = 1;

Helper::Helper(int listener, int locks, uint32_t processes)
    : listener_(listener), locks_(locks), instance_(random_instance()) {
  limits_.processes = processes;
  limits_.share_memory = processes > 0;  // so it is gVisor
  getrlimit(RLIMIT_NOFILE, &limits_.files);
  rlimit most = limits_.files;
  most.rlim_cur = most.rlim_max;
  setrlimit(RLIMIT_NOFILE, &most);
}

void Helper::run() {
  for (;;) turn();
}

int Helper::wait_time_ms() const {
  int wait = strangers_.empty() && workers_.empty() ? -1 : 1'000;
  for (const auto& command : commands_) {
    const int patience = command->patience_ms();
    if (patience >= 0 && (wait < 0 || patience < wait)) wait = patience;
  }
  return wait;
}

void Helper::turn() {
  std::vector<pollfd> wanted;
  wanted.push_back({strangers_.size() < kMostStrangers ? listener_ : -1, POLLIN, 0});
  fill_output();
  if (control_ >= 0) {
    const short events = POLLIN | (out_at_ < out_.size() ? POLLOUT : 0);
    wanted.push_back({control_, events, 0});
  }
  for (const auto& stranger : strangers_) wanted.push_back({stranger.fd, POLLIN, 0});
  for (const auto& command : commands_) command->interests(wanted);
  const int wait = wait_time_ms();
  const timespec limit{wait / 1000, (wait % 1000) * 1'000'000L};
  sigset_t open;
  sigemptyset(&open);  // SIGCHLD is let in only here
  const int ready = ppoll(wanted.data(), wanted.size(), wait < 0 ? nullptr : &limit, &open);
  forget_now();
  if (child_ended) reap();
  if (ready > 0) on_ready(wanted);
  for (auto& command : commands_) command->on_time();
  std::erase_if(strangers_, [&](const Stranger& stranger) {
    if (now_ms() < stranger.since_ms + kHello_ms) return false;
    close(stranger.fd);
    return true;
  });
  for (const auto& worker : workers_)
    if (now_ms() >= worker.since_ms + kWorker_ms) kill(worker.pid, SIGKILL);
}

void Helper::on_ready(const std::vector<pollfd>& ready) {
  for (const auto& item : ready) {
    if (item.fd < 0 || !item.revents) continue;
    if (item.fd == listener_) {
      accept_all();
    } else if (item.fd == control_) {
      if (item.revents & (POLLIN | POLLHUP | POLLERR)) read_control();
      if (control_ >= 0 && item.revents & POLLOUT) write_control();
    } else if (auto stranger = std::find_if(strangers_.begin(), strangers_.end(),
                                            [&](const Stranger& s) { return s.fd == item.fd; });
               stranger != strangers_.end()) {
      if (greet(item)) strangers_.erase(stranger);
    } else {
      for (auto& command : commands_) command->on_ready(item);
    }
  }
}

void Helper::accept_all() {
  while (strangers_.size() < kMostStrangers) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    strangers_.push_back({fd, now_ms()});
  }
}

bool Helper::greet(const pollfd& ready) {
  const int fd = ready.fd;
  char bytes[7];
  const ssize_t got = recv(fd, bytes, sizeof bytes, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got > 0 && got < static_cast<ssize_t>(sizeof bytes) && !(ready.revents & (POLLHUP | POLLERR)))
    return false;
  Reader body(got == sizeof bytes && frame_length({bytes, sizeof bytes}) == 3 ? std::string_view(bytes + 4, 3)
                                                                              : std::string_view{});
  const auto kind = static_cast<Kind>(body.u8());
  const uint8_t version = body.u8();
  const auto role = static_cast<Role>(body.u8());
  if (!body.done() || kind != Kind::kHello || version != kVersion ||
      recv(fd, bytes, sizeof bytes, 0) != sizeof bytes) {
    close(fd);
  } else if (role == Role::kControl) {
    welcome(fd);
  } else {
    start_file_worker(fd);
    close(fd);
  }
  return true;
}

void Helper::start_file_worker(int fd) {
  const pid_t pid = workers_.size() < kMaxFileRequests ? fork() : -1;
  if (pid > 0) workers_.push_back({pid, now_ms()});
  if (pid == 0) {
    const int connection = fcntl(fd, F_DUPFD, 16), locks = fcntl(locks_, F_DUPFD, 17);
    dup2(connection, 3), dup2(locks, 4);
    close_from(5);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    serve_file(3, 4);
  }
  if (pid < 0) {
    FileReply reply;
    reply.status = FileStatus::kBusy;
    const std::string busy = reply_frame(reply);
    (void)!send(fd, busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Helper::welcome(int fd) {
  drop_control();
  control_ = fd;
  Writer frame(Kind::kWelcome);
  frame.u8(kVersion).text(instance_).u32(commands_.size());
  for (const auto& command : commands_)
    frame.text(command->uid()).u64(command->base()).u64(command->end()).u64(command->stdin_end());
  out_ = frame.take();
}

void Helper::drop_control() {
  if (control_ >= 0) close(control_);
  control_ = -1;
  in_.clear(), out_.clear();
  out_at_ = 0;
  for (auto& command : commands_) command->detach();
}

void Helper::read_control() {
  char part[kMaxData];
  const ssize_t got = recv(control_, part, sizeof part, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return drop_control();
  in_.append(part, got);
  size_t at = 0;
  for (;;) {
    const std::string_view rest = std::string_view(in_).substr(at);
    const int64_t length = frame_length(rest);
    if (length == 0) break;
    if (length < 0 || !handle(rest.substr(4, length))) return drop_control();
    at += 4 + length;
  }
  in_.erase(0, at);
  if (!condemned_.empty()) signal_trees(std::exchange(condemned_, {}), SIGKILL);
}

void Helper::write_control() {
  const ssize_t sent = send(control_, out_.data() + out_at_, out_.size() - out_at_, MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (sent < 0) return drop_control();
  out_at_ += sent;
  if (out_at_ < out_.size()) return;
  out_.clear();
  out_at_ = 0;
}

// Takes turns between the commands, so that a loud one does not silence the others.
void Helper::fill_output() {
  if (control_ < 0) return;
  if (out_.size() - out_at_ > kOutMost) return drop_control();
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < commands_.size() && out_.size() - out_at_ < kOutWanted; ++i) {
      const std::string frame = commands_[(turn_of_ + i) % commands_.size()]->next_frame();
      any |= !frame.empty();
      out_ += frame;
    }
    ++turn_of_;
  }
  if (out_at_ < out_.size()) write_control();
}

Command* Helper::find(std::string_view uid) {
  for (auto& command : commands_)
    if (command->uid() == uid) return command.get();
  return nullptr;
}

bool Helper::handle(std::string_view frame) {
  Reader body(frame);
  const auto kind = static_cast<Kind>(body.u8());
  if (kind == Kind::kSpawn) return on_spawn(body);
  if (kind == Kind::kKillAll || kind == Kind::kCount) {
    const uint64_t tag = body.u64();
    if (!body.done()) return false;
    if (kind == Kind::kKillAll && getpid() == 1) kill(-1, SIGKILL);
    reap();
    say_count(tag);
    return true;
  }
  Command* command = find(body.text());
  if (kind == Kind::kStdin || kind == Kind::kResize || kind == Kind::kSignal)
    return on_input(kind, command, body);
  const uint64_t offset = kind == Kind::kAttach || kind == Kind::kAck ? body.u64() : 0;
  const uint8_t signal = kind == Kind::kKill ? body.u8() : 0;
  if (!body.done()) return false;
  if (!command) return true;  // forgotten meanwhile
  if (kind == Kind::kAttach) {
    command->attach(offset);
  } else if (kind == Kind::kAck) {
    command->acknowledge(offset);
  } else if (kind == Kind::kKill) {
    if (signal == SIGKILL)
      condemned_.push_back(command->tree());
    else if (signal > 0 && signal < NSIG)
      signal_trees({command->tree()}, signal);
  } else if (kind == Kind::kForget) {
    if (command->ended()) std::erase_if(commands_, [&](const auto& each) { return each.get() == command; });
  } else {
    return false;
  }
  return true;
}

bool Helper::on_input(Kind kind, Command* command, Reader& body) {
  if (kind == Kind::kStdin) {
    const uint64_t offset = body.u64();
    const auto data = body.text();
    const bool last = body.u8();
    return body.done() && (!command || command->ended() || command->add_stdin(offset, data, last));
  }
  if (kind == Kind::kResize) {
    const uint32_t rows = body.u32(), columns = body.u32();
    if (!body.done()) return false;
    if (command) command->resize(static_cast<uint16_t>(rows), static_cast<uint16_t>(columns));
    return true;
  }
  const uint8_t signal = body.u8();
  if (body.done() && command && signal > 0 && signal < NSIG) command->signal_group(signal);
  return body.done();
}

bool Helper::on_spawn(Reader& body) {
  SpawnRequest request;
  request.uid = body.text();
  request.user = body.u32(), request.group = body.u32();
  request.argv = body.texts(kMaxArguments);
  request.env = body.texts(kMaxEnvironment);
  request.directory = body.text();
  request.stdin_bytes = body.text();
  const uint8_t flags = body.u8();
  request.terminal = flags & kTerminal, request.stdin_open = flags & kStdinOpen;
  request.rows = static_cast<uint16_t>(body.u32()), request.columns = static_cast<uint16_t>(body.u32());
  if (!body.done() || request.uid.empty() || request.uid.size() > 64) return false;
  if (find(request.uid)) return true;
  size_t stdin_bytes = request.stdin_bytes.size();
  for (const auto& command : commands_) stdin_bytes += command->stdin_left();
  const bool too_many = commands_.size() >= kMaxCommands || stdin_bytes > kStdinMost;
  commands_.push_back(std::make_unique<Command>(std::move(request), limits_, too_many));
  return true;
}

void Helper::say_count(uint64_t tag) {
  std::vector<pid_t> except;
  for (const auto& worker : workers_) except.push_back(worker.pid);
  for (const auto& command : commands_)
    if (command->at_prompt()) except.push_back(command->pid());
  const Live live = count_live(except);
  out_ += Writer(Kind::kCounted)
              .u64(tag)
              .u32(live.count)
              .u32(static_cast<uint32_t>(live.first.pid))
              .text(live.first.name)
              .take();
}

void Helper::reap() {
  child_ended = 0;
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    std::erase_if(workers_, [&](const Worker& worker) { return worker.pid == pid; });
    for (auto& command : commands_)
      if (command->running() && command->pid() == pid) command->on_exit(status);
  }
}

}  // namespace nodus::helper
