// nodus exec: runs one command and streams its output, over as many connections as it takes.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <utility>

#include "cli/commands.hpp"
#include "cli/frames.hpp"
#include "cli/names.hpp"
#include "cli/notices.hpp"
#include "cli/session.hpp"
#include "cli/signals.hpp"
#include "libs/base/random.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

constexpr Millis kCancelPatience{10'000};  // for the end of a command that was cancelled
constexpr Millis kSilence{60'000};         // the server sends something every 15 s

Result<std::string> body_of(const ExecFlags& flags) {
  json::object body;
  body["command"] = json::array(flags.command.begin(), flags.command.end());
  auto env = pairs_of(flags.env, "--env");
  if (!env) return std::unexpected(std::move(env.error()));
  if (!env->empty()) body["env"] = std::move(*env);
  if (!flags.workdir.empty()) body["workingDir"] = flags.workdir;
  if (!flags.timeout.empty()) body["timeout"] = flags.timeout;
  return json::serialize(body);
}

int finish(Console& console, const Frames& frames) {
  if (frames.missing() > 0)
    console.err << fmt::format(
        "warning: {} bytes of output were no longer kept when the connection came back.\n", frames.missing());
  return report_end(console, *frames.end());
}

// One command without input: lines of JSON, each with its offset, so that a stream that broke off goes on.
class Run {
 public:
  Run(Api& api, const std::string& sandbox, const std::vector<std::string>& command, const std::string& body)
      : api_(api),
        console_(api.console()),
        sandbox_(sandbox),
        command_(command),
        frames_([this](bool is_stderr, std::string_view bytes) {
          std::ostream& out = is_stderr ? console_.err : console_.out;
          reader_left_ |= !out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
        }),
        since_(console_.clock->boot()),
        starting_(console_, fmt::format("sandboxes/{} is starting; waiting for it", sandbox)),
        away_(console_, "the server is away or busy; trying again") {
    request_.method = "POST";
    request_.headers.set("Content-Type", "application/json");
    request_.headers.set("Accept", "application/x-ndjson");
    request_.headers.set("Idempotency-Key", random_uuid());
    request_.body = body;
    request_.total_time = Millis(0);
    request_.idle_time = kSilence;
    request_.on_head = [this](const http::Headers& headers) {
      begun_ = true;
      process_ = headers.get(kProcessHeader).value_or(process_);
    };
    request_.on_body = [this](std::string_view part) {
      attempt_ = 0;
      since_ = console_.clock->boot();
      malformed_ = !frames_.feed(part);
      return !malformed_ && !frames_.end() && !reader_left_;
    };
    request_.cancelled = [this] { return !heed_signals(); };
  }

  int run() {
    const DeferredSignals deferred;
    while (true) {
      request_.url = api_.url("/sandboxes/" + http::escape(sandbox_) + "/exec");
      if (frames_.offset() > 0) request_.url += fmt::format("?offset={}", frames_.offset());
      frames_.begin();
      api_.heed_signals(false);  // this call heeds them itself
      const auto answer = api_.attempt(request_);
      if (frames_.end()) return finish(console_, frames_);
      if (reader_left_) {  // as a command whose pipe broke
        (void)cancel_command(api_, process_, sandbox_, command_);
        return 128 + SIGPIPE;
      }
      if (malformed_)
        return report(
            console_,
            Error{
                Code::kInternal, "BadAnswer", "The server's answer is not a command's output.", {}, {}, ""});
      if (leaves_) return leave();
      api_.heed_signals(!begun_);  // a Sandbox that is starting is not waited for any longer
      const Error error = answer ? Error{Code::kUnavailable,
                                         "ConnectionLost",
                                         "The connection ended before the command did.",
                                         {},
                                         {},
                                         ""}
                                 : answer.error();
      const bool starting = error.reason == "SandboxStarting";
      if (api_.pause(error, ++attempt_, since_, sandbox_, starting ? starting_ : away_)) continue;
      if (console_.interrupted() != 0) return leave();
      const int code = report(console_, error);
      if (begun_) console_.err << kGoesOn;
      return code;
    }
  }

 private:
  static constexpr const char* kGoesOn =
      "The command goes on in the Sandbox; nodus get processes shows how it ends.\n";

  int leave() {
    if (begun_) console_.err << kGoesOn;
    return 128 + console_.interrupted();
  }

  // ^C cancels the command, and its end is waited for; any other signal ends us only. False: end the call.
  bool heed_signals() {
    const int number = console_.interrupted();
    if (number == 0 || leaves_) return !leaves_;
    leaves_ = number != SIGINT;
    if (!leaves_ && !cancelled_at_) {
      cancelled_at_ = console_.clock->boot();
      leaves_ = !cancel_command(api_, process_, sandbox_, command_);
    }
    leaves_ |= console_.clock->boot() - *cancelled_at_ > kCancelPatience;
    return !leaves_;
  }

  Api& api_;
  Console& console_;
  const std::string sandbox_;
  const std::vector<std::string> command_;
  Frames frames_;
  http::ClientRequest request_;
  Micros since_;
  Progress starting_, away_;
  std::string process_;
  int attempt_ = 0;
  bool begun_ = false, malformed_ = false, reader_left_ = false, leaves_ = false;
  std::optional<Micros> cancelled_at_;
};

int exec_session(Api& api, const std::string& sandbox, const ExecFlags& flags) {
  Console& console = api.console();
  if (flags.terminal && flags.with_input && !console.in_is_terminal)
    console.err << "warning: the input is not a terminal; the command gets one all the same.\n";
  if (flags.terminal)  // somebody is there to read it
    if (const auto there = api.json("GET", "/sandboxes/" + sandbox))
      warn_before_its_end(console, there->body);
  const auto end = run_session(api, {.sandbox = sandbox,
                                     .command = flags.command,
                                     .env = terminal_env(console, flags),
                                     .timeout = flags.timeout,
                                     .workdir = flags.workdir,
                                     .input = flags.with_input,
                                     .terminal = flags.terminal});
  if (!end && end.error().reason == "ReaderLeft") return 128 + SIGPIPE;
  return end ? report_end(console, *end) : report(console, end.error());
}

}  // namespace

std::vector<std::string> terminal_env(const Console& console, const ExecFlags& flags) {
  std::vector<std::string> env = flags.env;
  const auto term = console.environment.find("TERM");
  const bool given = std::ranges::any_of(env, [](const auto& pair) { return pair.starts_with("TERM="); });
  if (flags.terminal && !given && term != console.environment.end() && !term->second.empty())
    env.push_back("TERM=" + term->second);
  return env;
}

int exec(Api& api, const ExecFlags& flags) {
  Console& console = api.console();
  const auto name = sandbox_name(flags.sandbox);
  if (!name) return report(console, name.error());
  const auto body = body_of(flags);
  if (!body) return report(console, body.error());
  if (flags.with_input || flags.terminal) return exec_session(api, *name, flags);
  on_interrupt("\n");
  return Run(api, *name, flags.command, *body).run();
}

}  // namespace nodus::cli
