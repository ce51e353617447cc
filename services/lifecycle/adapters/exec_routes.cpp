// Commands: admitted here, then handed on to the node; the bytes are only passed through.
#include "libs/base/random.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/exec_request.hpp"
#include "services/lifecycle/adapters/node_path.hpp"
#include "services/lifecycle/adapters/render.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr size_t kExecBytes = 2 * 1024 * 1024;
constexpr size_t kMaxIdempotencyKey = 128;

Result<Admission> admit(Api& api, const http::Identity& caller, const http::Request& request,
                        const std::string& body, ExecRequest& exec) {
  auto sandbox = find_sandbox(api, caller, request);
  if (!sandbox) return std::unexpected(std::move(sandbox.error()));
  auto parsed = parse_exec(body, api.options.times);
  if (!parsed) return std::unexpected(std::move(parsed.error()));
  exec = std::move(*parsed);
  exec.process.input_hash = api.sandboxes.input_hash(body);  // variables may be secrets
  exec.process.idempotency_key = request.headers.get("Idempotency-Key").value_or("");
  if (exec.process.idempotency_key.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  return api.sandboxes.admit(*sandbox, exec.process);
}

std::string node_command(const Process& process, const ExecRequest& exec,
                         const std::map<std::string, std::string>& sandbox_env) {
  json::object body = exec.body;
  json::object env;
  for (const auto& [name, value] : sandbox_env) env[name] = value;
  if (const auto* own = body.if_contains("env"); own && own->is_object())
    for (const auto& [name, value] : own->get_object()) env[name] = value;
  if (!env.empty()) body["env"] = std::move(env);
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
  upstream.body = node_command(process, exec, admission->env);
  upstream.headers.set("Content-Type", "application/json");
  co_await hand_on(api, exchange, sandbox, std::move(upstream));
}

}  // namespace

std::vector<PublicRoute> exec_routes() {
  const auto path = [](std::string_view rest) {
    return "/apis/nodus.dev/v1/namespaces/{project}/sandboxes/{name}/" + std::string(rest);
  };
  return {
      {.method = "POST",
       .pattern = path("exec"),
       .name = "sandboxes.exec",
       .right = Right::kUse,
       .effect = Effect::kChanges,
       .stream = exec_route,
       .lasting = true},
  };
}

}  // namespace nodus::lifecycle
