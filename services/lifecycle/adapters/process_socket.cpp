#include "services/lifecycle/adapters/process_socket.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "libs/http/fetch.hpp"
#include "libs/http/together.hpp"
#include "libs/http/websocket.hpp"
#include "services/lifecycle/adapters/node_path.hpp"
#include "services/lifecycle/adapters/process_stream.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr size_t kAnswerBytes = 64 * 1024;
constexpr Millis kNodeAnswer{10'000};

// The command may run: it is to be joined by its name, not sent again.
Error unreachable(const Process& process) {
  Error error{Code::kUnavailable,
              "ProcessUnreachable",
              "Process \"" + process.admitted.name +
                  "\" was accepted, but its machine cannot be reached now. Attach to it in 1 second.",
              {},
              1,
              {}};
  error.details_json = json::serialize(json::object{{"process", process.admitted.name}});
  return error;
}

bool has_node(const Sandbox& sandbox, const Process& process) {
  return sandbox.epoch == process.admitted.epoch && !sandbox.data_path.empty();
}

awaitable<bool> pipe_to_node(Api& api, http::Exchange& exchange, const Process& process,
                             const Sandbox& sandbox, const SocketStreams& streams) {
  const auto& request = exchange.request();
  auto upstream = node_upstream(
      api, sandbox, process.admitted.epoch,
      fmt::format("processes/{}/attach?offset={}&stdin={}&stdout={}&stderr={}", process.admitted.uid.str(),
                  streams.offset, streams.in, streams.out, streams.err));
  upstream.method = "GET";
  upstream.headers.set("Upgrade", "websocket");
  for (const char* name : {"Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Protocol"})
    if (const auto value = request.headers.get(name)) upstream.headers.set(name, *value);
  upstream.intercept = [&process](int status, const http::Headers& headers) -> std::optional<http::Response> {
    const bool gone = status == 404 || headers.get("X-Nodus-Reason") == "SlotNotRunning";
    if (status == 101 || (status / 100 == 4 && !gone)) return std::nullopt;
    return http::status(unreachable(process));  // its end is on its way: the next attach has it
  };
  co_return (co_await exchange.proxy(std::move(upstream))).has_value();
}

// What a client of Kubernetes reads the exit code from, and how the command ended in our words. As the node
// says it: services/executor/process/attach.cpp.
std::string final_status(const StreamEnd& end, const std::string& process) {
  json::object details{{"process", process}, {"reason", end.reason}};
  json::object status{{"kind", "Status"}, {"apiVersion", "v1"}, {"metadata", json::object()}};
  status["status"] = end.reason.empty() ? "Success" : "Failure";
  if (!end.reason.empty()) {
    const std::string code = std::to_string(end.exit_code);
    details["causes"] = {{{"reason", "ExitCode"}, {"message", code}}};
    status["reason"] = "NonZeroExitCode";
    status["message"] =
        end.message.empty() ? "command terminated with non-zero exit code: exit status " + code : end.message;
    status["code"] = 500;
  }
  status["details"] = std::move(details);
  return json::serialize(status);
}

enum Channel : char { kStdout = 1, kStderr = 2, kError = 3 };

class SocketSink final : public OutputSink {
 public:
  SocketSink(http::WebSocket& socket, const SocketStreams& streams) : socket_(socket), streams_(streams) {}
  awaitable<bool> begun() override { co_return !socket_.closed(); }
  awaitable<bool> frames(std::span<const OutputFrame> frames) override {
    for (const auto& frame : frames) {
      if (frame.stream == 1 ? !streams_.out : !streams_.err) continue;
      const char channel = frame.stream == 1 ? kStdout : kStderr;
      if (!co_await socket_.write(std::string(1, channel) + frame.data)) co_return false;
    }
    co_return !socket_.closed();
  }
  awaitable<bool> quiet() override { co_return !socket_.closed(); }  // it pings by itself

 private:
  http::WebSocket& socket_;
  const SocketStreams& streams_;
};

// What the client says is of no use to anybody: only that it is there, or not.
awaitable<void> read_all(http::WebSocket& socket) {
  while (co_await socket.read()) continue;
}

awaitable<void> write_all(Api& api, http::Exchange& exchange, http::WebSocket& socket, const Process& process,
                          const SocketStreams& streams) {
  SocketSink sink(socket, streams);
  StreamOf what{.process = process, .sandbox = {}, .offset = streams.offset, .start = ""};
  const auto streamed = co_await stream_process(api, exchange, std::move(what), sink);
  if (streamed.end)
    co_await socket.write(std::string(1, kError) + final_status(*streamed.end, process.admitted.name));
  co_await socket.close(streamed.end ? http::websocket::kNormal : http::websocket::kInternalError, "");
}

// Without its node: what is kept, what the node says when it is there again, the end.
awaitable<void> follow_on_socket(Api& api, http::Exchange& exchange, const Process& process,
                                 const SocketStreams& streams) {
  http::WebSocketOptions options;
  options.protocols = {"v5.channel.k8s.io", "v4.channel.k8s.io"};
  options.ping_time = api.options.keep_alive;
  options.headers.set("X-Nodus-Process", process.admitted.name);
  auto socket = co_await exchange.upgrade(std::move(options));
  if (!socket) co_return;
  co_await http::together(read_all(**socket), write_all(api, exchange, **socket, process, streams),
                          (*socket)->keep_alive());
}

// What the node said of the start; nothing: it has the command, or nobody knows whether it has.
awaitable<std::optional<http::Response>> start_on_node(Api& api, http::Exchange& exchange,
                                                       const Admission& admission, json::object body) {
  const Process& process = *admission.process;
  const Sandbox& sandbox = admission.sandbox;
  if (!has_node(sandbox, process)) co_return std::nullopt;
  auto upstream = node_upstream(api, sandbox, process.admitted.epoch, "processes?detach=1");
  upstream.method = "POST";
  upstream.body = node_command(process, std::move(body), admission.env);
  upstream.idle_time = kNodeAnswer;
  upstream.headers.set("Content-Type", "application/json");
  auto intercept = std::move(upstream.intercept);
  auto answer = co_await http::fetch(std::move(upstream), kAnswerBytes);
  std::optional<http::Response> refused;
  if (!answer && answer.error().reason != "UpstreamUnreachable") co_return std::nullopt;
  if (!answer) {
    refused = http::status(
        sandbox_starting(api, "The machine of Sandbox \"" + sandbox.name + "\" cannot be reached now."));
  } else if (answer->status / 100 != 2) {
    refused = intercept(answer->status, answer->headers);
    answer->headers.erase("X-Nodus-Reason");
    if (!refused) refused = std::move(*answer);
  }
  if (refused)
    co_await exchange.run_blocking(
        [&] { api.sandboxes.abandon(process, "The Sandbox's machine did not take the command on."); });
  co_return refused;
}

}  // namespace

bool wants_socket(const http::Request& request) {
  std::string upgrade = request.headers.get("Upgrade").value_or("");
  std::ranges::transform(upgrade, upgrade.begin(), [](unsigned char c) { return std::tolower(c); });
  return upgrade.contains("websocket") || upgrade.starts_with("spdy");
}

std::optional<Error> upgrade_fault(const http::Request& request) {
  bool wrong_version = false;
  auto checked =
      http::websocket::check_handshake(request, {"v5.channel.k8s.io", "v4.channel.k8s.io"}, wrong_version);
  if (checked) return std::nullopt;
  return std::move(checked.error());
}

awaitable<void> exec_socket(Api& api, const http::Identity& caller, http::Exchange& exchange, Admit admit) {
  const auto& request = exchange.request();
  if (const auto fault = upgrade_fault(request)) co_return co_await exchange.respond(http::status(*fault));
  ExecRequest exec;
  uint64_t offset = 0;
  auto admission = co_await blocking<Admission>(exchange, [&]() -> Result<Admission> {
    Faults faults;
    offset = query_offset(faults, request);
    if (faults.any()) return std::unexpected(faults.error("The request"));
    auto parsed = parse_exec_query(request, "", true, api.options.times);
    if (!parsed) return std::unexpected(std::move(parsed.error()));
    exec = std::move(*parsed);
    return admit(api, caller, request, exec);
  });
  if (!admission) co_return co_await exchange.respond(http::status(admission.error()));
  if (!admission->process) co_return co_await answer_not_yet(api, exchange, admission->sandbox);
  if (!admission->process->ended) {
    auto refused = co_await start_on_node(api, exchange, *admission, std::move(exec.body));
    if (refused) co_return co_await exchange.respond(std::move(*refused));
  }
  const SocketStreams streams{offset, exec.wants_stdin, exec.wants_stdout, exec.wants_stderr};
  co_await attach_socket(api, exchange, std::move(*admission->process), streams);
}

awaitable<void> attach_socket(Api& api, http::Exchange& exchange, Process process, SocketStreams streams) {
  auto sandbox =
      co_await blocking<Sandbox>(exchange, [&] { return api.catalog.sandbox(process.admitted.sandbox); });
  if (!sandbox) co_return co_await exchange.respond(http::status(sandbox.error()));
  if (!process.ended && has_node(*sandbox, process) &&
      co_await pipe_to_node(api, exchange, process, *sandbox, streams))
    co_return;
  // Input has nowhere to go for now; who only listens is told all there is.
  if (!process.ended && streams.in) co_return co_await exchange.respond(http::status(unreachable(process)));
  co_await follow_on_socket(api, exchange, process, streams);
}

}  // namespace nodus::lifecycle
