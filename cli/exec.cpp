// nodus exec: runs one command and streams its output, over as many connections as it takes.
#include <fmt/format.h>
#include <signal.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "cli/commands.hpp"
#include "cli/frames.hpp"
#include "cli/names.hpp"
#include "libs/base/random.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

constexpr size_t kMaxInput = 512 * 1024;
constexpr Millis kSilence{60'000};  // the server sends something every 15 s

Result<std::string> body_of(Console& console, const ExecFlags& flags) {
  json::object body;
  body["command"] = json::array(flags.command.begin(), flags.command.end());
  json::object env;
  for (const std::string& pair : flags.env) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos)
      return fail(Code::kInvalid, "LocalFault", fmt::format("--env \"{}\" is not NAME=VALUE.", pair));
    env[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  if (!env.empty()) body["env"] = std::move(env);
  if (!flags.workdir.empty()) body["workingDir"] = flags.workdir;
  if (!flags.timeout.empty()) body["timeout"] = flags.timeout;
  if (flags.with_input) {
    if (console.in_is_terminal)
      return fail(Code::kInvalid, "LocalFault",
                  "-i takes its input from a pipe or a file, not from a terminal.");
    std::string input(kMaxInput + 1, '\0');
    console.in.read(input.data(), static_cast<std::streamsize>(input.size()));
    input.resize(static_cast<size_t>(console.in.gcount()));
    if (input.size() > kMaxInput)
      return fail(Code::kInvalid, "LocalFault",
                  "The input is larger than 512 KiB: copy it in with nodus cp.");
    body["stdin"] = to_base64(input);
  }
  return json::serialize(body);
}

int finish(Console& console, const Frames& frames) {
  if (frames.missing() > 0)
    console.err << fmt::format(
        "warning: {} bytes of output were no longer kept when the connection came back.\n", frames.missing());
  const End& end = *frames.end();
  if (!end.reason.empty() && end.reason != "NonZeroExit") {
    console.err << "error: the command ended with " << end.reason;
    if (!end.message.empty()) console.err << ": " << end.message;
    console.err << "\n";
  }
  return exit_code_of(end);
}

}  // namespace

int exec(Api& api, const ExecFlags& flags) {
  Console& console = api.console();
  const auto name = sandbox_name(flags.sandbox);
  if (!name) return report(console, name.error());
  const auto body = body_of(console, flags);
  if (!body) return report(console, body.error());
  on_interrupt("interrupted; the command goes on in the Sandbox (nodus get processes shows how it ends)\n");

  bool reader_left = false;  // of our output: `nodus exec … | head`
  Frames frames([&](bool is_stderr, std::string_view bytes) {
    std::ostream& out = is_stderr ? console.err : console.out;
    reader_left |= !out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  });
  http::ClientRequest request;
  request.method = "POST";
  request.headers.set("Content-Type", "application/json");
  request.headers.set("Accept", "application/x-ndjson");
  request.headers.set("Idempotency-Key", random_uuid());
  request.body = *body;
  request.total_time = Millis(0);
  request.idle_time = kSilence;
  Micros since = console.clock->boot();
  int attempt = 0;
  bool begun = false, malformed = false;
  request.on_body = [&](std::string_view part) {
    begun = true;
    attempt = 0;
    since = console.clock->boot();
    malformed = !frames.feed(part);
    return !malformed && !frames.end() && !reader_left;
  };
  Progress starting(console, fmt::format("sandboxes/{} is starting; waiting for it", *name));
  while (true) {
    request.url = api.url("/sandboxes/" + http::escape(*name) + "/exec");
    if (frames.offset() > 0) request.url += fmt::format("?offset={}", frames.offset());
    frames.begin();
    const auto answer = api.attempt(request);
    if (frames.end()) return finish(console, frames);
    if (reader_left) return 128 + SIGPIPE;
    if (malformed)
      return report(
          console,
          {Code::kInternal, "BadAnswer", "The server's answer is not a command's output.", {}, {}, ""});
    const Error error = answer ? Error{Code::kUnavailable,
                                       "ConnectionLost",
                                       "The connection ended before the command did.",
                                       {},
                                       {},
                                       ""}
                               : answer.error();
    if (!api.pause(error, ++attempt, since)) {
      const int code = report(console, error);
      if (begun)
        console.err << "The command goes on in the Sandbox; nodus get processes shows how it ends.\n";
      return code;
    }
    if (error.reason == "SandboxStarting") starting.waiting();
  }
}

}  // namespace nodus::cli
