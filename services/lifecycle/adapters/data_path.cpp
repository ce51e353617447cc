// Commands: admitted here, then handed on to the node; the bytes are only passed through.
#include <fmt/core.h>

#include "libs/base/random.hpp"
#include "libs/config/config.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/adapters/node_path.hpp"
#include "services/lifecycle/adapters/render.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr std::string_view kPrefix = "/apis/nodus.dev/v1/namespaces/{project}/sandboxes/{name}/";
constexpr size_t kExecBytes = 2 * 1024 * 1024;
constexpr size_t kMaxArguments = 1024;
constexpr size_t kMaxCommandBytes = 64 * 1024;
constexpr size_t kMaxVariables = 256;
constexpr size_t kMaxIdempotencyKey = 128;

struct ExecRequest {
  NewProcess process;
  json::object body;  // as sent: env, workingDir and stdin go to the node only
};

void read_command(Faults& faults, const json::object& in, std::vector<std::string>& out) {
  const auto* command = in.if_contains("command");
  if (!command || !command->is_array() || command->get_array().empty()) {
    faults.add("command", command ? "FieldTypeInvalid" : "FieldValueRequired",
               "A list of strings, the program first.");
    return;
  }
  size_t bytes = 0;
  for (const auto& argument : command->get_array()) {
    if (!argument.is_string() || std::string_view(argument.get_string()).contains('\0')) {
      faults.add(fmt::format("command[{}]", out.size()), "FieldTypeInvalid", "This is a string without NUL.");
      return;
    }
    out.emplace_back(argument.get_string());
    bytes += out.back().size() + 1;
  }
  if (out.front().empty()) faults.add("command[0]", "FieldValueInvalid", "Name a program.");
  if (out.size() > kMaxArguments || bytes > kMaxCommandBytes)
    faults.add("command", "FieldValueInvalid",
               "A command line holds at most 1,024 arguments and 64 KiB in total.");
}

void check_environment(Faults& faults, const json::object& in) {
  const auto* env = faults.object(in, "env", "env");
  if (!env) return;
  if (env->size() > kMaxVariables) faults.add("env", "FieldValueInvalid", "At most 256 variables.");
  for (const auto& [name, value] : *env)
    if (name.empty() || name.contains('=') || name.contains('\0') || !value.is_string() ||
        std::string_view(value.get_string()).contains('\0'))
      faults.add("env." + std::string(name).substr(0, 128), "FieldValueInvalid",
                 "A variable has a name without \"=\" and a string value.");
}

Result<ExecRequest> parse_exec(const std::string& body, const SpecTimes& times) {
  auto root = parse_object(body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  ExecRequest out;
  out.process.timeout = times.command_default;
  faults.only(*root, "", {"command", "env", "workingDir", "timeout", "stdin"});
  read_command(faults, *root, out.process.command);
  check_environment(faults, *root);
  if (const auto* dir = faults.text(*root, "workingDir", "workingDir");
      dir && !dir->empty() && !valid_directory(*dir))
    faults.add("workingDir", "FieldValueInvalid",
               "An absolute path without \"..\", and not under /proc, /sys or /dev.");
  if (const auto* timeout = faults.text(*root, "timeout", "timeout")) {
    const auto duration = config::parse_duration(*timeout);
    if (!duration || *duration < Seconds(1) || *duration > times.command_max)
      faults.add("timeout", "FieldValueInvalid",
                 "A duration from 1s to " + config::format_duration(times.command_max) + ", such as 10m.");
    else
      out.process.timeout = *duration;
  }
  if (const auto* input = faults.text(*root, "stdin", "stdin")) {
    std::string bytes;
    if (!from_base64(*input, bytes)) faults.add("stdin", "FieldValueInvalid", "This is base64.");
  }
  if (faults.any()) return std::unexpected(faults.error("The command"));
  out.process.input_hash = sha256_hex(body);
  out.body = std::move(*root);
  return out;
}

Result<Admission> admit(Api& api, const http::Identity& caller, const http::Request& request,
                        const std::string& body, ExecRequest& exec) {
  auto sandbox = find_sandbox(api, caller, request);
  if (!sandbox) return std::unexpected(std::move(sandbox.error()));
  auto parsed = parse_exec(body, api.options.times);
  if (!parsed) return std::unexpected(std::move(parsed.error()));
  exec = std::move(*parsed);
  exec.process.idempotency_key = request.headers.get("Idempotency-Key").value_or("");
  if (exec.process.idempotency_key.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  return api.sandboxes.admit(*sandbox, exec.process);
}

}  // namespace

// A node that does not have the slot (any more, or yet) answers 409/SlotNotRunning: to the client the Sandbox
// starts.
static std::optional<http::Response> slot_not_running(const Api& api, const std::string& sandbox, int status,
                                                      const http::Headers& headers) {
  if (status != 409 || headers.get("X-Nodus-Reason") != "SlotNotRunning") return std::nullopt;
  return http::status(sandbox_starting(api, "Sandbox \"" + sandbox + "\" is starting."));
}

http::Upstream node_upstream(Api& api, const Sandbox& sandbox, int64_t epoch, std::string_view rest) {
  http::Upstream upstream;
  const size_t colon = sandbox.data_path.rfind(':');
  upstream.host = sandbox.data_path.substr(0, colon);
  upstream.port = std::atoi(sandbox.data_path.c_str() + (colon == std::string::npos ? 0 : colon + 1));
  upstream.target = fmt::format("/v1/slots/{}/epochs/{}/{}", sandbox.uid.str(), epoch, rest);
  upstream.headers.set("Authorization",
                       "Bearer " + http::node_token(api.options.node_secret, MachineId(sandbox.machine)));
  upstream.intercept = [&api, name = sandbox.name](int status, const http::Headers& headers) {
    return slot_not_running(api, name, status, headers);
  };
  return upstream;
}

awaitable<void> answer_not_yet(Api& api, http::Exchange& exchange, Sandbox sandbox) {
  auto settled = co_await settle(api, exchange, std::move(sandbox));
  if (!settled) co_return co_await exchange.respond(http::status(settled.error()));
  Error error{Code::kInternal, "InternalError", "", {}, {}, {}};
  auto ran = co_await exchange.run_blocking([&] { error = not_yet(api, *settled); });
  co_await exchange.respond(http::status(ran ? error : ran.error()));
}

awaitable<void> hand_on(Api& api, http::Exchange& exchange, const Sandbox& sandbox, http::Upstream upstream) {
  auto passed = co_await exchange.proxy(std::move(upstream));
  if (passed) co_return;
  if (passed.error().code != Code::kUnavailable && passed.error().code != Code::kDeadlineExceeded)
    co_return co_await exchange.respond(http::status(passed.error()));
  co_await exchange.respond(http::status(
      sandbox_starting(api, "The machine of Sandbox \"" + sandbox.name + "\" cannot be reached now.")));
}

namespace {

std::string node_command(const Process& process, const ExecRequest& exec) {
  json::object body = exec.body;
  body.erase("timeout");
  body["uid"] = process.admitted.uid.str();
  body["name"] = process.admitted.name;
  body["timeoutMs"] = std::chrono::ceil<Millis>(process.admitted.timeout).count();
  return json::serialize(body);
}

// Its output is gone from the node, its end is recorded.
http::Response ended_response(const Process& process) {
  http::Response ended{200, {}, end_frame(process)};
  ended.headers.set("Content-Type", "application/x-ndjson");
  return ended;
}

awaitable<void> exec_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto body = co_await exchange.read_body(kExecBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  ExecRequest exec;
  Result<Admission> admission = fail(Code::kInternal, "InternalError", "");
  auto ran = co_await exchange.run_blocking(
      [&] { admission = admit(api, caller, exchange.request(), *body, exec); });
  if (!ran) co_return co_await exchange.respond(http::status(ran.error()));
  if (!admission) co_return co_await exchange.respond(http::status(admission.error()));
  const Sandbox& sandbox = admission->sandbox;
  if (!admission->process) co_return co_await answer_not_yet(api, exchange, sandbox);
  const Process& process = *admission->process;
  const bool here = sandbox.epoch == process.admitted.epoch && !sandbox.data_path.empty();
  if (!here && !process.ended) {  // a repeat, after the start that ran it: its end is recorded shortly
    Error later{
        Code::kUnavailable, "ProcessEnding", "The command's end is being recorded. Try again.", {}, 1, {}};
    co_return co_await exchange.respond(http::status(later));
  }
  if (!here) {
    co_return co_await exchange.respond(ended_response(process));
  }
  std::string rest = "processes";
  if (const auto offset = exchange.request().query_value("offset")) {
    if (offset->empty() || offset->size() > 18 ||
        offset->find_first_not_of("0123456789") != std::string::npos)
      co_return co_await exchange.respond(
          http::status({Code::kInvalid, "Invalid", "offset: a number of bytes, 0 or more.", {}, {}, {}}));
    rest += "?offset=" + *offset;
  }
  if (process.ended) rest += rest.contains('?') ? "&attach=1" : "?attach=1";  // it ran: never a second time
  auto upstream = node_upstream(api, sandbox, process.admitted.epoch, rest);
  if (process.ended)
    upstream.intercept = [&process](int status,
                                    const http::Headers& headers) -> std::optional<http::Response> {
      if (status / 100 == 2) return std::nullopt;
      return status == 404 || headers.get("X-Nodus-Reason") ? std::optional(ended_response(process))
                                                            : std::nullopt;
    };
  upstream.method = "POST";
  upstream.body = node_command(process, exec);
  upstream.headers.set("Content-Type", "application/json");
  co_await hand_on(api, exchange, sandbox, std::move(upstream));
}

}  // namespace

std::vector<PublicRoute> data_path_routes() {
  const auto path = [](std::string_view rest) { return std::string(kPrefix) + std::string(rest); };
  return {
      {.method = "POST",
       .pattern = path("exec"),
       .name = "sandboxes.exec",
       .right = Right::kUse,
       .effect = Effect::kChanges,
       .stream = exec_route},
  };
}

}  // namespace nodus::lifecycle
