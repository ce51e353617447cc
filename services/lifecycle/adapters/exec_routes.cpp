// Commands: admitted here, started on the node, streamed back. See docs/ARCHITECTURE.md, "Exec".
#include <fmt/format.h>

#include "libs/base/random.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/exec_request.hpp"
#include "services/lifecycle/adapters/exec_sinks.hpp"
#include "services/lifecycle/adapters/node_path.hpp"
#include "services/lifecycle/adapters/process_socket.hpp"
#include "services/lifecycle/adapters/render.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

constexpr size_t kExecBytes = 2 * 1024 * 1024;
constexpr size_t kInputBytes = 1024 * 1024;  // of a raw standard input; more comes over a stream
constexpr size_t kMaxIdempotencyKey = 128;

Result<Admission> admit(Api& api, const http::Identity& caller, const http::Request& request,
                        ExecRequest& exec) {
  auto sandbox = find_sandbox(api, caller, request);
  if (!sandbox) return std::unexpected(std::move(sandbox.error()));
  exec.process.input_hash = api.sandboxes.input_hash(exec.input);
  exec.process.idempotency_key = request.headers.get("Idempotency-Key").value_or("");
  if (exec.process.idempotency_key.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  return api.sandboxes.admit(*sandbox, exec.process);
}

// The form of the answer to a POST.
struct Form {
  bool whole = false;   // ?wait=true: one JSON object
  bool base64 = false;  // ?encoding=base64, of its output
  uint64_t offset = 0;
};

Result<Form> form_of(const http::Request& request) {
  Faults faults;
  Form form;
  form.whole = query_switch(faults, request, "wait", false);
  form.offset = query_offset(faults, request);
  if (const auto encoding = request.query_value("encoding")) {
    form.base64 = *encoding == "base64";
    if (*encoding != "base64" && *encoding != "text")
      faults.add("encoding", "FieldValueInvalid", "text or base64.");
  }
  if (form.whole && form.offset > 0) faults.add("offset", "FieldValueInvalid", "A whole result begins at 0.");
  if (faults.any()) return std::unexpected(faults.error("The request"));
  return form;
}

bool is_json(const http::Request& request) {
  const std::string type = request.headers.get("Content-Type").value_or("");
  return !request.query.contains("command") &&
         (type.empty() || !type.starts_with("application/octet-stream"));
}

awaitable<void> exec_answer(Api& api, http::Exchange& exchange, Admission admission, ExecRequest exec,
                            Form form) {
  const Process& process = *admission.process;
  std::unique_ptr<AnswerSink> sink;
  if (form.whole)
    sink = std::make_unique<ResultSink>(exchange, process.admitted.name, api.options.result_limit_bytes,
                                        form.base64);
  else
    sink = std::make_unique<FrameSink>(exchange, process.admitted.name);
  StreamOf what{.process = process,
                .sandbox = admission.sandbox,
                .offset = form.offset,
                .start = node_command(process, std::move(exec.body), admission.env)};
  auto streamed = co_await stream_process(api, exchange, std::move(what), *sink);
  if (!streamed.refused) co_return co_await sink->end(streamed.end);
  if (streamed.unreached)
    co_await exchange.run_blocking(
        [&] { api.sandboxes.abandon(process, "The Sandbox's machine did not take the command on."); });
  co_await exchange.respond(std::move(*streamed.refused));
}

awaitable<void> exec_post(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  const auto& request = exchange.request();
  if (wants_socket(request)) co_return co_await exec_socket(api, caller, exchange, admit);
  const bool json = is_json(request);
  auto body = co_await exchange.read_body(json ? kExecBytes : kInputBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  ExecRequest exec;
  Form form;
  auto admission = co_await blocking<Admission>(exchange, [&]() -> Result<Admission> {
    auto asked = form_of(request);
    if (!asked) return std::unexpected(std::move(asked.error()));
    form = *asked;
    auto parsed = json ? parse_exec(*body, api.options.times)
                       : parse_exec_query(request, *body, false, api.options.times);
    if (!parsed) return std::unexpected(std::move(parsed.error()));
    exec = std::move(*parsed);
    return admit(api, caller, request, exec);
  });
  if (!admission) co_return co_await exchange.respond(http::status(admission.error()));
  if (!admission->process) co_return co_await answer_not_yet(api, exchange, admission->sandbox);
  co_await exec_answer(api, exchange, std::move(*admission), std::move(exec), form);
}

awaitable<void> exec_get(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  if (wants_socket(exchange.request())) co_return co_await exec_socket(api, caller, exchange, admit);
  co_await exchange.respond(http::status(
      {Code::kBadRequest,
       "BadRequest",
       "A GET of exec opens a stream: connect with Upgrade: websocket. Without one, POST the command.",
       {},
       {},
       {}}));
}

}  // namespace

std::vector<PublicRoute> exec_routes() {
  const std::string path = "/apis/nodus.dev/v1/namespaces/{project}/sandboxes/{name}/exec";
  return {
      {.method = "POST",
       .pattern = path,
       .name = "sandboxes.exec",
       .right = Right::kUse,
       .effect = Effect::kChanges,
       .stream = exec_post,
       .lasting = true},
      {.method = "GET",
       .pattern = path,
       .name = "sandboxes.exec.stream",
       .right = Right::kUse,
       .effect = Effect::kChanges,
       .stream = exec_get,
       .lasting = true},
  };
}

}  // namespace nodus::lifecycle
