#include "services/executor/process/helper_client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"

namespace nodus::executor {
namespace {
using helper::Kind;
using helper::Reader;
using helper::Writer;
constexpr size_t kOfferLimit = 8u << 20, kSendLimit = 16u << 20;
constexpr size_t kReadSize = 128u << 10;
constexpr int kReconnectFirst_ms = 5, kReconnectMost_ms = 500;
}  // namespace

int connect_unix(const std::filesystem::path& path) {
  const int target = open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (target < 0) return -1;
  struct stat info{};
  int error = fstat(target, &info) < 0 ? errno : S_ISSOCK(info.st_mode) ? 0 : ENOTSOCK;
  int fd = error ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (!error && fd < 0) error = errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = "/proc/self/fd/" + std::to_string(target);
  std::copy(text.begin(), text.end(), address.sun_path);
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) {
    error = errno;
    close(fd);
    fd = -1;
  }
  close(target);
  errno = error;
  return fd;
}

struct HelperClient::State {
  State(std::filesystem::path path, HelperListener& to) : socket_path(std::move(path)), listener(to) {
    CHECK(wake_fd >= 0);
    thread = std::thread([this] { run(); });
  }
  ~State() {
    {
      std::lock_guard hold(mutex);
      stopping = true;
    }
    wake();
    thread.join();
    close(wake_fd);
  }

  void wake() const {
    const uint64_t one = 1;
    (void)!write(wake_fd, &one, sizeof one);
  }
  void run();
  void converse();
  bool turn();
  bool flush();
  bool receive();
  bool handle(std::string_view frame);
  bool handle_welcome(Reader& body);
  void set_connected(bool is);
  void put(std::string_view frame);  // with mutex held
  int time_left_ms() const;
  Result<uint32_t> ask(Kind kind, Millis patience);

  const std::filesystem::path socket_path;
  HelperListener& listener;
  const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::thread thread;

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  bool stopping = false, is_connected = false, overrun = false;
  bool idle = false;  // the thread has nothing to send, and will not send before it looks at the queue
  std::atomic<bool> tick = true;
  std::string queue;
  uint64_t last_tag = 0;
  std::map<uint64_t, std::optional<uint32_t>> answers;
  std::string live_name;  // of one of the live processes, when they were last counted

  int fd = -1;  // set by the thread; whoever holds the mutex may send on it while is_connected and idle

  // The thread's own.
  std::string sending, received;
  size_t sent = 0;
  Micros due{0};
  SystemClock clock;
};

int HelperClient::State::time_left_ms() const {
  const auto left = std::chrono::ceil<Millis>(due - clock.boot()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void HelperClient::State::set_connected(bool is) {
  std::lock_guard hold(mutex);
  is_connected = is;
  overrun = idle = false;
  if (!is) queue.clear();
  changed.notify_all();
}

void HelperClient::State::run() {
  for (int pause = kReconnectFirst_ms;;) {
    fd = connect_unix(socket_path);
    if (fd >= 0) {
      converse();
      set_connected(false);
      close(fd);
      fd = -1;
      pause = kReconnectFirst_ms;
    }
    {
      std::lock_guard hold(mutex);
      if (stopping) return;
    }
    if (tick.exchange(false) || time_left_ms() == 0) due = clock.boot() + listener.on_time();
    pollfd waiting{wake_fd, POLLIN, 0};
    poll(&waiting, 1, std::min(pause + static_cast<int>(random_below(pause)), std::max(1, time_left_ms())));
    uint64_t count;
    (void)!read(wake_fd, &count, sizeof count);
    pause = std::min(pause * 2, kReconnectMost_ms);
  }
}

void HelperClient::State::converse() {
  sending = Writer(Kind::kHello).u8(helper::kVersion).u8(static_cast<uint8_t>(helper::Role::kControl)).take();
  received.clear();
  sent = 0;
  while (turn()) {
  }
}

bool HelperClient::State::turn() {
  {
    std::lock_guard hold(mutex);
    if (stopping || overrun) return false;
    if (sent == sending.size()) {
      sending.clear();
      sent = 0;
      std::swap(sending, queue);
    }
    idle = sending.empty();
  }
  pollfd ready[2] = {{fd, static_cast<short>(POLLIN | (sent < sending.size() ? POLLOUT : 0)), 0},
                     {wake_fd, POLLIN, 0}};
  if (poll(ready, 2, time_left_ms()) < 0 && errno != EINTR) return false;
  uint64_t count;
  if (ready[1].revents) (void)!read(wake_fd, &count, sizeof count);
  if (tick.exchange(false)) due = clock.boot();
  if (time_left_ms() == 0) due = clock.boot() + listener.on_time();
  if (ready[0].revents & POLLOUT && !flush()) return false;
  return !(ready[0].revents & (POLLIN | POLLHUP | POLLERR)) || receive();
}

// At once when nothing waits before it: a command's start should not wait for another thread to wake up. What
// the socket does not take, and a fault of it, is the thread's.
void HelperClient::State::put(std::string_view frame) {
  if (idle && queue.empty()) {
    const ssize_t took = ::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (took > 0) frame.remove_prefix(static_cast<size_t>(took));
    if (frame.empty()) return;
  }
  queue += frame;
  wake();
}

bool HelperClient::State::flush() {
  const ssize_t put = ::send(fd, sending.data() + sent, sending.size() - sent, MSG_NOSIGNAL);
  if (put < 0) return errno == EAGAIN || errno == EINTR;
  sent += put;
  return true;
}

bool HelperClient::State::receive() {
  const size_t held = received.size();
  received.resize(held + kReadSize);
  const ssize_t got = recv(fd, received.data() + held, kReadSize, 0);
  received.resize(held + std::max<ssize_t>(got, 0));
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  size_t at = 0;
  for (;;) {
    const auto rest = std::string_view(received).substr(at);
    const int64_t length = helper::frame_length(rest);
    if (length == 0) break;
    if (length < 0 || !handle(rest.substr(4, length))) return false;
    at += 4 + length;
  }
  received.erase(0, at);
  listener.caught_up();
  return true;
}

bool HelperClient::State::handle_welcome(Reader& body) {
  const uint8_t version = body.u8();
  const std::string instance(body.text());
  std::vector<HelperCommand> commands(std::min<size_t>(body.u32(), helper::kMaxCommands * 2));
  for (auto& command : commands) {
    command.uid = body.text();
    command.base = body.u64();
    command.end = body.u64();
    command.stdin_end = body.u64();
  }
  if (!body.done() || version != helper::kVersion) return false;
  {
    std::lock_guard hold(mutex);
    is_connected = true;  // from here on send() works
  }
  listener.connected(instance, commands);
  changed.notify_all();
  return true;
}

// "process 42 (node)". The process chose its name: what is not plain text is left out.
static std::string name_of(uint32_t pid, std::string_view name) {
  std::string plain;
  for (const char c : name.substr(0, 15))
    if (c > ' ' && c < 0x7f && c != '(' && c != ')') plain += c;
  return "process " + std::to_string(pid) + (plain.empty() ? "" : " (" + plain + ")");
}

bool HelperClient::State::handle(std::string_view frame) {
  Reader body(frame);
  const auto kind = static_cast<Kind>(body.u8());
  if (kind == Kind::kWelcome) return handle_welcome(body);
  if (kind == Kind::kCounted) {
    const uint64_t tag = body.u64();
    const uint32_t live = body.u32();
    std::string name = "a process";
    if (!body.done()) {
      const uint32_t pid = body.u32();
      name = name_of(pid, body.text());
    }
    std::lock_guard hold(mutex);
    live_name = live > 0 ? std::move(name) : "";
    if (auto asked = answers.find(tag); asked != answers.end()) asked->second = live;
    changed.notify_all();
    return body.done();
  }
  const auto uid = body.text();
  if (kind == Kind::kStarted) {
    body.u32();
    const Millis age(body.u64());
    if (body.done()) listener.started(uid, age);
  } else if (kind == Kind::kOutput) {
    const int stream = body.u8();
    const uint64_t offset = body.u64();
    const auto data = body.text();
    if (body.done() && (stream == 1 || stream == 2)) listener.output(uid, stream, offset, data);
  } else if (kind == Kind::kTaken) {
    const uint64_t offset = body.u64();
    if (body.done()) listener.taken(uid, offset);
  } else if (kind == Kind::kEnded) {
    HelperEnd end;
    end.how = static_cast<helper::How>(body.u8());
    end.value = body.u32();
    end.stage = static_cast<helper::Stage>(body.u8());
    end.output_end = body.u64();
    end.age = Millis(body.u64());
    if (body.done()) listener.ended(uid, end);
  } else {
    return false;
  }
  return body.done();
}

Result<uint32_t> HelperClient::State::ask(Kind kind, Millis patience) {
  std::unique_lock hold(mutex);
  const uint64_t tag = ++last_tag;
  if (is_connected) queue += Writer(kind).u64(tag).take();
  answers[tag];
  wake();
  changed.wait_for(hold, patience, [&] { return answers[tag].has_value() || !is_connected; });
  const auto answer = answers[tag];
  answers.erase(tag);
  if (answer) return *answer;
  return fail(Code::kUnavailable, "HelperSilent", "The helper inside the Sandbox did not answer in time.");
}

HelperClient::HelperClient(std::filesystem::path socket, HelperListener& listener)
    : state_(std::make_unique<State>(std::move(socket), listener)) {}
HelperClient::~HelperClient() = default;

bool HelperClient::wait_connected(Millis patience) const {
  std::unique_lock hold(state_->mutex);
  return state_->changed.wait_for(hold, patience, [&] { return state_->is_connected; });
}

bool HelperClient::offer(std::string_view frame) {
  std::lock_guard hold(state_->mutex);
  if (!state_->is_connected || state_->queue.size() + frame.size() > kOfferLimit) return false;
  state_->put(frame);
  return true;
}

void HelperClient::send(std::string_view frame) {
  std::lock_guard hold(state_->mutex);
  if (!state_->is_connected) return;
  if (state_->queue.size() + frame.size() <= kSendLimit) return state_->put(frame);
  state_->overrun = true;
  state_->wake();
}

Result<uint32_t> HelperClient::count_live(Millis patience) {
  return state_->ask(Kind::kCount, patience);
}
std::string HelperClient::live_name() const {
  std::lock_guard hold(state_->mutex);
  return state_->live_name;
}
Result<uint32_t> HelperClient::kill_all(Millis patience) {
  return state_->ask(Kind::kKillAll, patience);
}
void HelperClient::wake() {
  state_->tick = true;
  state_->wake();
}

}  // namespace nodus::executor
