#include "cli/session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>

#include "cli/channels.hpp"
#include "cli/output.hpp"
#include "cli/read.hpp"
#include "cli/signals.hpp"
#include "libs/base/random.hpp"
#include "libs/http/target.hpp"
#include "libs/http/websocket_client.hpp"

namespace nodus::cli {

namespace {

constexpr size_t kInputBytes = 32 * 1024;  // a message
constexpr Millis kTurn{1'000};             // how long a read waits before signals are looked at, at most
constexpr Millis kCancelPatience{10'000};  // for the end of a command that was cancelled

std::string query_of(const SessionOptions& options) {
  std::string query = "?stdout=true&stderr=" + std::string(options.terminal ? "false" : "true") +
                      "&stdin=" + (options.input ? "true" : "false") +
                      "&tty=" + (options.terminal ? "true" : "false");
  const auto add = [&](const char* name, const std::string& value) {
    query += fmt::format("&{}={}", name, http::escape(value));
  };
  for (const auto& word : options.command) add("command", word);
  for (const auto& pair : options.env) add("env", pair);
  if (!options.timeout.empty()) add("timeout", options.timeout);
  if (!options.workdir.empty()) add("workingDir", options.workdir);
  return query;
}

// Sends what is typed and the window's size, on a thread of its own: a server that does not take input must
// not keep us from reading its output. One for each connection.
class Input {
 public:
  Input(http::WebSocketClient& socket, const SessionOptions& options, int fd, std::string& unsent)
      : socket_(socket), options_(options), fd_(options.input ? fd : -1), unsent_(unsent) {
    if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) wake_[0] = wake_[1] = -1;
    thread_ = std::thread([this] { run(); });
  }
  ~Input() {
    stop_ = true;
    nudge();
    thread_.join();
    for (const int end : wake_)
      if (end >= 0) close(end);
  }
  Input(const Input&) = delete;
  void resize() {
    resized_ = true;
    nudge();
  }
  bool sent_any() const { return sent_any_; }

 private:
  void nudge() { [[maybe_unused]] const ssize_t ignored = write(wake_[1], "", 1); }
  bool send(std::string_view message) { return socket_.write(message).has_value(); }

  // False: the end of the input, or of the connection.
  bool take_input() {
    if (unsent_.empty()) {
      unsent_.resize(kInputBytes);
      const ssize_t got = read(fd_, unsent_.data(), unsent_.size());
      const bool again = got < 0 && (errno == EINTR || errno == EAGAIN);
      unsent_.resize(got > 0 ? static_cast<size_t>(got) : 0);
      if (again) return true;
      if (got <= 0) {
        if (socket_.protocol() == kV5) send(close_message(Channel::kStdin));
        return false;
      }
    }
    sent_any_ = true;
    if (!send(channel_message(Channel::kStdin, unsent_))) return false;
    unsent_.clear();
    return true;
  }

  void run() {
    if (options_.terminal) resized_ = true;
    while (!stop_) {
      if (resized_.exchange(false) && options_.terminal)
        if (const auto size = terminal_size(fd_ >= 0 ? fd_ : STDIN_FILENO))
          if (!send(resize_message(size->rows, size->columns))) return;
      if (!unsent_.empty() && !take_input()) return;
      std::array<pollfd, 2> polled{pollfd{wake_[0], POLLIN, 0}, pollfd{fd_, POLLIN, 0}};
      if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
      char bytes[64];
      while (read(wake_[0], bytes, sizeof bytes) > 0) {
      }
      if (!stop_ && polled[1].revents != 0 && !take_input()) fd_ = -1;
    }
  }

  http::WebSocketClient& socket_;
  const SessionOptions& options_;
  int fd_;
  std::string& unsent_;  // read, but not known to be handed over
  int wake_[2] = {-1, -1};
  std::atomic<bool> stop_ = false, resized_ = false, sent_any_ = false;
  std::thread thread_;
};

class Session {
 public:
  Session(Api& api, const SessionOptions& options)
      : api_(api),
        console_(api.console()),
        options_(options),
        key_(random_uuid()),
        since_(console_.clock->boot()),
        starting_(console_, fmt::format("sandboxes/{} is starting; waiting for it", options.sandbox),
                  options.starting),
        away_(console_, "the server is away or busy; trying again") {}

  Result<End> run() {
    const DeferredSignals deferred;
    for (;;) {
      auto socket = connect();
      if (!socket) return std::unexpected(std::move(socket.error()));
      auto end = converse(**socket);
      if (end || end.error().reason != "ConnectionLost") return end;
      if (lossy_)
        return fail(
            Code::kUnavailable, "ConnectionLost",
            "The connection was lost while input was being sent, and some of it may not have arrived.");
      if (options_.terminal && !console_.quiet)
        console_.err << "\r\nthe connection was lost; connecting again\r\n" << std::flush;
    }
  }
  bool begun() const { return begun_; }

 private:
  Result<std::unique_ptr<http::WebSocketClient>> connect() {
    for (int attempt = 1;; ++attempt) {
      http::WebSocketTarget target{
          .url = api_.url("/sandboxes/" + http::escape(options_.sandbox) + "/exec" + query_of(options_)),
          .headers = {},
          .protocols = {std::string(kV5), std::string(kV4)}};
      if (const auto size = terminal_size(STDIN_FILENO); size && options_.terminal)
        target.url += fmt::format("&rows={}&cols={}", size->rows, size->columns);
      if (offset_ > 0) target.url += fmt::format("&offset={}", offset_);
      target.headers.set("Authorization", "Bearer " + api_.settings().key);
      target.headers.set("Idempotency-Key", key_);  // a repeat finds the command that it began
      auto socket = http::WebSocketClient::open(target);
      if (socket) {
        begun_ = true;
        process_ = (*socket)->headers().get(kProcessHeader).value_or(process_);
        since_ = console_.clock->boot();
        return socket;
      }
      const bool starting = socket.error().reason == "SandboxStarting";
      if (!api_.pause(socket.error(), attempt, since_, options_.sandbox, starting ? starting_ : away_)) {
        if (console_.interrupted() != 0 && !begun_) return fail(Code::kUnavailable, "Interrupted", "");
        return socket;
      }
    }
  }

  Result<End> converse(http::WebSocketClient& socket) {
    std::optional<RawTerminal> raw;
    if (options_.terminal && options_.input && console_.in_is_terminal) raw.emplace(console_.in_fd);
    Input input(socket, options_, console_.in_fd, unsent_);
    for (;;) {
      if (take_resized()) input.resize();
      if (auto left = heed_signals(); !left) return std::unexpected(std::move(left.error()));
      auto message = socket.read(Millis(0));
      if (message && !*message) {
        console_.out.flush();
        wait_for(socket);
        continue;
      }
      if (!message) {
        lossy_ = input.sent_any() && !options_.terminal;
        if (status_) return std::move(*status_);
        return fail(Code::kUnavailable, "ConnectionLost", "The connection ended before the command did.");
      }
      if (!take(**message)) {  // as a command whose pipe broke
        (void)cancel_command(api_, process_, options_.sandbox, options_.command);
        return fail(Code::kUnavailable, "ReaderLeft", "");
      }
      if (status_) {
        console_.out.flush();
        return std::move(*status_);
      }
    }
  }

  void wait_for(http::WebSocketClient& socket) {
    std::array<pollfd, 2> polled{pollfd{socket.descriptor(), POLLIN, 0}, pollfd{signal_pipe(), POLLIN, 0}};
    poll(polled.data(), polled.size(), static_cast<int>(kTurn.count()));
    drain_signals();
  }

  // ^C without a terminal of its own cancels the command, and its end is waited for. A terminal hands ^C on
  // as a key; then a signal is somebody who wants us to go.
  Result<void> heed_signals() {
    const int number = console_.interrupted();
    if (number == 0) return {};
    if (number != SIGINT || options_.terminal) return fail(Code::kUnavailable, "Left", "");
    if (!cancelled_at_) {
      cancelled_at_ = console_.clock->boot();
      if (!cancel_command(api_, process_, options_.sandbox, options_.command))
        return fail(Code::kUnavailable, "Left", "");
    }
    if (console_.clock->boot() - *cancelled_at_ > kCancelPatience)
      return fail(Code::kUnavailable, "Left", "");
    return {};
  }
  bool take(std::string_view message) {  // false: nobody reads our output any more
    if (message.empty()) return true;
    const auto channel = static_cast<Channel>(message.front());
    message.remove_prefix(1);
    if (channel == Channel::kStatus) {
      status_ = end_of(message);
      return true;
    }
    if (channel != Channel::kStdout && channel != Channel::kStderr) return true;
    offset_ += message.size();
    std::ostream& out = channel == Channel::kStderr ? console_.err : console_.out;
    return static_cast<bool>(out.write(message.data(), static_cast<std::streamsize>(message.size())).flush());
  }

  Api& api_;
  Console& console_;
  const SessionOptions& options_;
  const std::string key_;
  Micros since_;
  Progress starting_, away_;
  std::string unsent_, process_;
  uint64_t offset_ = 0;  // bytes of output taken
  bool begun_ = false;   // the server took it on
  bool lossy_ = false;   // input may be lost with the connection
  std::optional<Micros> cancelled_at_;
  std::optional<Result<End>> status_;
};

}  // namespace

Result<End> run_session(Api& api, const SessionOptions& options) {
  api.heed_signals(true);
  Session session(api, options);
  auto end = session.run();
  if (!end && session.begun() && end.error().reason != "Interrupted" && end.error().reason != "ReaderLeft")
    api.console().err << "The command goes on in the Sandbox; nodus get processes shows how it ends.\n";
  return end;
}

namespace {

Result<std::string> running_process(Api& api, const std::string& sandbox,
                                    const std::vector<std::string>& command) {
  const auto listed = list_all(api, Kind::kProcess, "sandbox=" + http::escape(sandbox));
  if (!listed) return std::unexpected(listed.error());
  const boost::json::value wanted = boost::json::array(command.begin(), command.end());
  std::string name;
  for (const auto& process : listed->items) {
    const auto* words = value_at(process, "spec.command");
    if (text_at(process, "status.phase") != "Running" || !words || *words != wanted) continue;
    if (!name.empty()) name = "?";
    if (name.empty()) name = text_at(process, "metadata.name");
  }
  if (name.empty() || name == "?") return fail(Code::kNotFound, "NoProcess", "");
  return name;
}

}  // namespace

Result<void> cancel_command(const Api& api, std::string name, const std::string& sandbox,
                            const std::vector<std::string>& command) {
  Settings settings = api.settings();
  settings.retry_for = std::min<Micros>(settings.retry_for, kCancelPatience);
  Api own(api.console(), std::move(settings));  // the other one may be inside a call
  own.heed_signals(false);
  if (name.empty()) {
    auto found = running_process(own, sandbox, command);
    if (!found) return std::unexpected(std::move(found.error()));
    name = std::move(*found);
  }
  const auto done = own.json("POST", "/processes/" + http::escape(name) + "/cancel");
  if (!done) return std::unexpected(done.error());
  return {};
}

int report_end(Console& console, const End& end) {
  if (end.reason == "Cancelled" && console.interrupted() != 0) {
    console.err << "cancelled\n";
    return 128 + console.interrupted();
  }
  if (!end.reason.empty() && end.reason != "NonZeroExit") {
    console.err << "error: the command ended with " << end.reason;
    if (!end.message.empty()) console.err << ": " << end.message;
    console.err << "\n";
  }
  return exit_code_of(end);
}

}  // namespace nodus::cli
