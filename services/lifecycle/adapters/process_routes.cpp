// What can be done with a Process that is there: read what it wrote, join it, signal it, cancel it.
#include <fmt/format.h>
#include <array>

#include "libs/http/fetch.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/exec_request.hpp"
#include "services/lifecycle/adapters/exec_sinks.hpp"
#include "services/lifecycle/adapters/node_path.hpp"
#include "services/lifecycle/adapters/process_socket.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr size_t kSignalBytes = 4096;
constexpr size_t kAnswerBytes = 64 * 1024;
constexpr Millis kNodeAnswer{10'000};
constexpr Millis kEndPatience{2'000};  // a command that is killed ends soon

Result<Process> find_process(Api& api, const http::Identity& caller, const http::Request& request) {
  return api.catalog.process(caller.project, request.params.at("name"));
}

http::Response rendered(const ProcessView& view) {
  return http::json(200, json::serialize(render_process(view)));
}

struct Running {
  ProcessView view;
  Sandbox sandbox;
};

Result<Running> find_running(Api& api, const http::Identity& caller, const http::Request& request) {
  auto view = api.catalog.process_view(caller.project, request.params.at("name"));
  if (!view) return std::unexpected(std::move(view.error()));
  auto sandbox = api.catalog.sandbox(view->process.admitted.sandbox);
  if (!sandbox) return std::unexpected(std::move(sandbox.error()));
  return Running{std::move(*view), std::move(*sandbox)};
}

Error unreachable(const Process& process) {
  Error error{Code::kUnavailable,
              "ProcessUnreachable",
              "The machine of Process \"" + process.admitted.name +
                  "\" cannot be reached now. Send the request again in 1 second.",
              {},
              1,
              {}};
  error.details_json = json::serialize(json::object{{"process", process.admitted.name}});
  return error;
}

// Asks the node to do `verb` to the command. Answers its status; an error is for the client.
awaitable<Result<int>> ask_node(Api& api, const Running& running, std::string_view verb, std::string body) {
  const auto& admitted = running.view.process.admitted;
  if (running.sandbox.epoch != admitted.epoch || running.sandbox.data_path.empty())
    co_return std::unexpected(unreachable(running.view.process));  // its start is over: its end comes
  auto upstream = node_upstream(api, running.sandbox, admitted.epoch,
                                fmt::format("processes/{}/{}", admitted.uid.str(), verb));
  upstream.method = "POST";
  upstream.body = std::move(body);
  upstream.idle_time = kNodeAnswer;
  upstream.headers.set("Content-Type", "application/json");
  auto answer = co_await http::fetch(std::move(upstream), kAnswerBytes);
  if (!answer) co_return std::unexpected(unreachable(running.view.process));
  co_return answer->status;
}

// Waits a moment for the end that was just ordered.
awaitable<Result<ProcessView>> settled(Api& api, http::Exchange& exchange, ProcessView view) {
  const auto& admitted = view.process.admitted;
  const std::string stream = process_stream(admitted.uid);
  const Micros deadline = api.clock.boot() + kEndPatience;
  while (!view.process.ended) {
    const uint64_t ticket = api.waiters.ticket(stream);
    auto now = co_await blocking<ProcessView>(
        exchange, [&] { return api.catalog.process_view(admitted.project, admitted.name); });
    if (!now) co_return now;
    view = std::move(*now);
    const auto left = std::chrono::ceil<Millis>(deadline - api.clock.boot());
    if (view.process.ended || left <= Millis(0)) break;
    co_await api.waiters.wait(stream, ticket, left);
  }
  co_return view;
}

awaitable<void> cancel_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto running =
      co_await blocking<Running>(exchange, [&] { return find_running(api, caller, exchange.request()); });
  if (!running) co_return co_await exchange.respond(http::status(running.error()));
  if (running->view.process.ended) co_return co_await exchange.respond(rendered(running->view));
  // A command that its node has not got (yet) never starts.
  auto status = co_await ask_node(api, *running, "cancel", "{}");
  if (status && *status == 404) status = co_await ask_node(api, *running, "refuse", "{}");
  if (status && *status / 100 != 2) status = std::unexpected(unreachable(running->view.process));
  if (!status) co_return co_await exchange.respond(http::status(status.error()));
  auto view = co_await settled(api, exchange, std::move(running->view));
  co_await exchange.respond(view ? rendered(*view) : http::status(view.error()));
}

Result<std::string> parse_signal(const std::string& body) {
  static constexpr std::array<std::string_view, 13> kSignals = {
      "SIGHUP",  "SIGINT",  "SIGQUIT", "SIGABRT", "SIGKILL", "SIGUSR1", "SIGUSR2",
      "SIGALRM", "SIGTERM", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGWINCH"};
  auto root = parse_object(body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  faults.only(*root, "", {"signal"});
  const auto* text = faults.text(*root, "signal", "signal");
  std::string name = text ? std::string(*text) : "";
  if (!name.empty() && !name.starts_with("SIG")) name = "SIG" + name;
  if (!root->contains("signal"))
    faults.add("signal", "FieldValueRequired", "The name of a signal, such as SIGINT.");
  else if (text && std::ranges::find(kSignals, name) == kSignals.end())
    faults.add("signal", "FieldValueInvalid", "The name of a signal, such as SIGINT or SIGTERM.");
  if (faults.any()) return std::unexpected(faults.error("The signal"));
  return name;
}

awaitable<void> signal_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto body = co_await exchange.read_body(kSignalBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  std::string signal;
  auto running = co_await blocking<Running>(exchange, [&]() -> Result<Running> {
    auto parsed = parse_signal(*body);
    if (!parsed) return std::unexpected(std::move(parsed.error()));
    signal = std::move(*parsed);
    auto found = find_running(api, caller, exchange.request());
    if (found && found->view.process.ended)
      return fail(
          Code::kConflict, "ProcessEnded",
          "Process \"" + found->view.process.admitted.name + "\" has ended: there is nothing to signal.");
    return found;
  });
  if (!running) co_return co_await exchange.respond(http::status(running.error()));
  const auto status =
      co_await ask_node(api, *running, "signal", json::serialize(json::object{{"signal", signal}}));
  if (!status) co_return co_await exchange.respond(http::status(status.error()));
  if (*status / 100 != 2)
    co_return co_await exchange.respond(http::status(unreachable(running->view.process)));
  co_await exchange.respond(rendered(running->view));
}

// ---- output

struct LogRequest {
  Process process;
  uint64_t offset = 0;
  bool follow = false;
  int stream = 0;
  bool frames = false;
  SocketStreams streams;
};

Result<LogRequest> log_of(Api& api, const http::Identity& caller, const http::Request& request) {
  Faults faults;
  LogRequest log;
  log.offset = query_offset(faults, request);
  log.follow = query_switch(faults, request, "follow", false);
  const std::string stream = request.query_value("stream").value_or("");
  log.stream = stream == "stdout" ? 1 : stream == "stderr" ? 2 : 0;
  if (!stream.empty() && stream != "all" && log.stream == 0)
    faults.add("stream", "FieldValueInvalid", "stdout, stderr or all.");
  const bool some = request.query.contains("stdout") || request.query.contains("stderr");
  log.streams = {log.offset, query_switch(faults, request, "stdin", false),
                 query_switch(faults, request, "stdout", !some),
                 query_switch(faults, request, "stderr", !some)};
  if (faults.any()) return std::unexpected(faults.error("The request"));
  log.frames = request.headers.get("Accept").value_or("").contains("application/x-ndjson");
  auto process = find_process(api, caller, request);
  if (!process) return std::unexpected(std::move(process.error()));
  log.process = std::move(*process);
  return log;
}

awaitable<void> answer_log(Api& api, http::Exchange& exchange, LogRequest log) {
  std::unique_ptr<AnswerSink> sink;
  const std::string name = log.process.admitted.name;
  if (log.frames)
    sink = std::make_unique<FrameSink>(exchange, name, log.stream);
  else
    sink = std::make_unique<BytesSink>(exchange, name, log.stream);
  StreamOf what{.process = std::move(log.process),
                .sandbox = {},
                .offset = log.offset,
                .start = "",
                .follow = log.follow};
  auto streamed = co_await stream_process(api, exchange, std::move(what), *sink);
  if (streamed.refused) co_return co_await exchange.respond(std::move(*streamed.refused));
  co_await sink->end(streamed.end);
}

awaitable<void> log_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto log = co_await blocking<LogRequest>(exchange, [&] { return log_of(api, caller, exchange.request()); });
  if (!log) co_return co_await exchange.respond(http::status(log.error()));
  co_await answer_log(api, exchange, std::move(*log));
}

// Without an upgrade: the frames of a POST to exec, of a command that is there.
awaitable<void> attach_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto log = co_await blocking<LogRequest>(exchange, [&] { return log_of(api, caller, exchange.request()); });
  if (!log) co_return co_await exchange.respond(http::status(log.error()));
  if (wants_socket(exchange.request())) {
    if (const auto fault = upgrade_fault(exchange.request()))
      co_return co_await exchange.respond(http::status(*fault));
    co_return co_await attach_socket(api, exchange, std::move(log->process), log->streams);
  }
  log->follow = log->frames = true;
  co_await answer_log(api, exchange, std::move(*log));
}

}  // namespace

std::vector<PublicRoute> process_routes() {
  const auto row = [](std::string method, std::string_view rest, std::string name, Effect effect,
                      StreamHandler handler) {
    return PublicRoute{
        .method = std::move(method),
        .pattern = "/apis/nodus.dev/v1/namespaces/{project}/processes/{name}" + std::string(rest),
        .name = std::move(name),
        .right = Right::kUse,
        .effect = effect,
        .stream = handler,
        .lasting = rest == "/attach" || rest == "/log"};
  };
  return {row("DELETE", "", "processes.delete", Effect::kRemoves, cancel_route),
          row("POST", "/cancel", "processes.cancel", Effect::kRemoves, cancel_route),
          row("POST", "/signal", "processes.signal", Effect::kChanges, signal_route),
          row("GET", "/attach", "processes.attach", Effect::kChanges, attach_route),
          row("GET", "/log", "processes.log", Effect::kReads, log_route)};
}

}  // namespace nodus::lifecycle
