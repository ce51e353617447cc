// Files: the Sandbox is woken when it does not run, then the request is handed on to its node.
#include "services/lifecycle/adapters/node_path.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

constexpr size_t kMaxPath = 4095;
constexpr const char* kHandedOn[] = {
    "Content-Type",  "Content-Range", "Idempotency-Key",     "If-Match", "If-Modified-Since",
    "If-None-Match", "If-Range",      "If-Unmodified-Since", "Range",    "Want-Content-Digest"};

std::string query_of(const http::Request& request) {
  const size_t mark = request.target.find('?');
  return mark == std::string::npos ? "" : request.target.substr(mark);
}

// What is plainly wrong is refused before it wakes a Sandbox; the node checks everything.
std::optional<Error> refuse_early(const Api& api, const http::Request& request) {
  const auto path = request.query_value("path");
  if (!path || path->empty() || path->front() != '/' || path->size() > kMaxPath) {
    const char* message = "An absolute path of at most 4,095 bytes.";
    return Error{Code::kInvalid,
                 "Invalid",
                 std::string("path: ") + message,
                 {{"path", path ? "FieldValueInvalid" : "FieldValueRequired", message}},
                 {},
                 {}};
  }
  const auto length = request.headers.get("Content-Length");  // digits: the server has checked it
  if (request.method == "PUT" && length && std::stoull(*length) > api.options.file_limit_bytes)
    return Error{Code::kTooLarge,
                 "FileTooLarge",
                 "A file is at most 64 MiB per request; write a larger one by parts.",
                 {},
                 {},
                 {}};
  return std::nullopt;
}

// A node that is too busy, or whose Sandbox does not answer, is a Sandbox that is not ready.
void hide_busy_node(Api& api, const Sandbox& sandbox, http::Upstream& upstream) {
  upstream.intercept = [&api, name = sandbox.name, first = std::move(upstream.intercept)](
                           int status, const http::Headers& headers) -> std::optional<http::Response> {
    if (auto answer = first(status, headers)) return answer;
    if (status != 502 && status != 503 && status != 504) return std::nullopt;
    return http::status(sandbox_starting(api, "Sandbox \"" + name + "\" does not answer now."));
  };
}

awaitable<void> files_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  if (const auto refused = refuse_early(api, exchange.request()))
    co_return co_await exchange.respond(http::status(*refused));
  Result<Sandbox> sandbox = fail(Code::kInternal, "InternalError", "");
  const auto find = [&]() -> Result<Sandbox> {
    auto found = find_sandbox(api, caller, exchange.request());
    if (!found || found->phase == Phase::kRunning) return found;
    return api.sandboxes.trigger(*found, Trigger::kFile);
  };
  auto ran = co_await exchange.run_blocking([&] { sandbox = find(); });
  if (!ran) co_return co_await exchange.respond(http::status(ran.error()));
  if (!sandbox) co_return co_await exchange.respond(http::status(sandbox.error()));
  if (sandbox->phase != Phase::kRunning) co_return co_await answer_not_yet(api, exchange, *sandbox);
  auto upstream = node_upstream(api, *sandbox, sandbox->epoch, "files" + query_of(exchange.request()));
  for (const auto* name : kHandedOn)
    if (const auto value = exchange.request().headers.get(name)) upstream.headers.set(name, *value);
  upstream.body_limit = api.options.file_limit_bytes;
  hide_busy_node(api, *sandbox, upstream);
  co_await hand_on(api, exchange, *sandbox, std::move(upstream));
}

}  // namespace

std::vector<PublicRoute> file_routes() {
  std::vector<PublicRoute> routes;
  for (const auto& [method, name] : {std::pair{"GET", "sandboxes.files.get"},
                                     {"PUT", "sandboxes.files.put"},
                                     {"DELETE", "sandboxes.files.delete"}})
    routes.push_back({.method = method,
                      .pattern = "/apis/nodus.dev/v1/namespaces/{project}/sandboxes/{name}/files",
                      .name = name,
                      .right = Right::kUse,
                      .effect = Effect::kChanges,
                      .stream = files_route});
  return routes;
}

}  // namespace nodus::lifecycle
