#include "services/lifecycle/adapters/api.hpp"

#include <fmt/core.h>

#include "libs/base/random.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/adapters/render.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr std::string_view kPrefix = "/apis/nodus.dev/v1/namespaces/{project}/";
constexpr size_t kManifestBytes = 256 * 1024;
constexpr size_t kMaxIdempotencyKey = 128;

std::string route_path(std::string_view rest) {
  return std::string(kPrefix) + std::string(rest);
}

Result<http::Response> sandbox_response(Api& api, int status, const Sandbox& sandbox) {
  auto busy = api.catalog.busy(sandbox.uid);
  if (!busy) return std::unexpected(std::move(busy.error()));
  return http::json(status, json::serialize(render_sandbox(sandbox, *busy, api.clock.now())));
}

http::Response answer(Result<http::Response> response) {
  return response ? std::move(*response) : http::status(response.error());
}

// Runs a blocking step of a streaming route; an overloaded pool is the step's error.
template <class T>
awaitable<Result<T>> blocking(http::Exchange& exchange, std::function<Result<T>()> step) {
  Result<T> out = fail(Code::kInternal, "InternalError", "The step did not run.");
  auto ran = co_await exchange.run_blocking([&] { out = step(); });
  if (!ran) co_return std::unexpected(std::move(ran.error()));
  co_return out;
}

Result<int> page_limit(const http::Request& request) {
  const auto text = request.query_value("limit");
  if (!text) return 500;
  if (text->empty() || text->size() > 3 || text->find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(*text) < 1 || std::stoi(*text) > 500)
    return fail(Code::kInvalid, "Invalid", "limit: a number from 1 to 500.");
  return std::stoi(*text);
}

Result<http::Response> list_sandboxes(Api& api, const http::Request& request) {
  auto identity = authenticate(api, request, Right::kRead);
  if (!identity) return std::unexpected(std::move(identity.error()));
  auto limit = page_limit(request);
  if (!limit) return std::unexpected(std::move(limit.error()));
  auto found =
      api.catalog.sandboxes(identity->project, {*limit, request.query_value("continue").value_or("")});
  if (!found) return std::unexpected(std::move(found.error()));
  json::array items;
  for (const auto& sandbox : *found) {
    auto busy = api.catalog.busy(sandbox.uid);
    if (!busy) return std::unexpected(std::move(busy.error()));
    items.push_back(render_sandbox(sandbox, *busy, api.clock.now()));
  }
  json::object metadata;
  if (static_cast<int>(found->size()) == *limit) metadata["continue"] = found->back().name;
  return http::json(200, json::serialize(json::object{{"apiVersion", "nodus.dev/v1"},
                                                      {"kind", "SandboxList"},
                                                      {"metadata", std::move(metadata)},
                                                      {"items", std::move(items)}}));
}

Result<http::Response> get_sandbox(Api& api, const http::Request& request) {
  auto caller = authenticate_for_sandbox(api, request, Right::kRead);
  if (!caller) return std::unexpected(std::move(caller.error()));
  return sandbox_response(api, 200, caller->sandbox);
}

Result<http::Response> delete_sandbox(Api& api, const http::Request& request) {
  auto caller = authenticate_for_sandbox(api, request, Right::kUse);
  if (!caller) return std::unexpected(std::move(caller.error()));
  auto after = api.sandboxes.remove(caller->sandbox);
  if (!after) return std::unexpected(std::move(after.error()));
  return sandbox_response(api, after->phase == Phase::kDeleted ? 200 : 202, *after);
}

Result<http::Response> list_processes(Api& api, const http::Request& request) {
  auto identity = authenticate(api, request, Right::kRead);
  if (!identity) return std::unexpected(std::move(identity.error()));
  auto limit = page_limit(request);
  if (!limit) return std::unexpected(std::move(limit.error()));
  auto found = api.catalog.processes(identity->project, request.query_value("sandbox").value_or(""), *limit);
  if (!found) return std::unexpected(std::move(found.error()));
  json::array items;
  for (const auto& process : *found) items.push_back(render_process(process));
  return http::json(200, json::serialize(json::object{{"apiVersion", "nodus.dev/v1"},
                                                      {"kind", "ProcessList"},
                                                      {"metadata", json::object{}},
                                                      {"items", std::move(items)}}));
}

Result<http::Response> get_process(Api& api, const http::Request& request) {
  auto identity = authenticate(api, request, Right::kRead);
  if (!identity) return std::unexpected(std::move(identity.error()));
  auto process = api.catalog.process(identity->project, request.params.at("name"));
  if (!process) return std::unexpected(std::move(process.error()));
  return http::json(200, json::serialize(render_process(*process)));
}

Result<Created> create_from(Api& api, const http::Request& request, const std::string& body) {
  auto identity = authenticate(api, request, Right::kUse);
  if (!identity) return std::unexpected(std::move(identity.error()));
  auto manifest = parse_manifest(body, identity->project, api.options.times);
  if (!manifest) return std::unexpected(std::move(manifest.error()));
  const auto key = request.headers.get("Idempotency-Key").value_or("");
  if (key.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  return api.sandboxes.create({.org = identity->org,
                               .project = identity->project,
                               .name = manifest->name,
                               .labels = manifest->labels,
                               .annotations = manifest->annotations,
                               .spec = manifest->spec,
                               .run = manifest->run,
                               .idempotency_key = key,
                               .input_hash = sha256_hex(body)});
}

awaitable<void> create_route(Api& api, http::Exchange& exchange) {
  if (auto refused = co_await refuse_stranger(api, exchange); refused)
    co_return co_await exchange.respond(http::status(*refused));
  auto body = co_await exchange.read_body(kManifestBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  auto created =
      co_await blocking<Created>(exchange, [&] { return create_from(api, exchange.request(), *body); });
  if (!created) co_return co_await exchange.respond(http::status(created.error()));
  auto settled = co_await settle(api, exchange, created->sandbox);
  if (!settled) co_return co_await exchange.respond(http::status(settled.error()));
  const int code = created->created ? 201 : 200;
  auto response =
      co_await blocking<http::Response>(exchange, [&] { return sandbox_response(api, code, *settled); });
  co_await exchange.respond(answer(std::move(response)));
}

Result<Sandbox> patch_with(Api& api, const http::Request& request, const std::string& body) {
  auto caller = authenticate_for_sandbox(api, request, Right::kUse);
  if (!caller) return std::unexpected(std::move(caller.error()));
  auto patch = parse_patch(body);
  if (!patch) return std::unexpected(std::move(patch.error()));
  Sandbox sandbox = caller->sandbox;
  if (patch->max_cost) {
    if (sandbox.spec.max_cost && *patch->max_cost < *sandbox.spec.max_cost)
      return fail(Code::kInvalid, "Invalid", "spec.maxCostUSD: a cap can only be raised.");
    auto after = api.sandboxes.raise_max_cost(sandbox, *patch->max_cost);
    if (!after) return after;
    sandbox = std::move(*after);
  }
  if (!patch->run) return sandbox;
  return *patch->run ? api.sandboxes.trigger(sandbox, Trigger::kStart) : api.sandboxes.stop(sandbox);
}

awaitable<void> patch_route(Api& api, http::Exchange& exchange) {
  if (auto refused = co_await refuse_stranger(api, exchange); refused)
    co_return co_await exchange.respond(http::status(*refused));
  auto body = co_await exchange.read_body(kManifestBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  auto after =
      co_await blocking<Sandbox>(exchange, [&] { return patch_with(api, exchange.request(), *body); });
  if (!after) co_return co_await exchange.respond(http::status(after.error()));
  auto settled = co_await settle(api, exchange, *after);
  if (!settled) co_return co_await exchange.respond(http::status(settled.error()));
  auto response = co_await blocking<http::Response>(exchange, [&]() -> Result<http::Response> {
    if (settled->phase == Phase::kPending && settled->refusal) return std::unexpected(not_yet(api, *settled));
    return sandbox_response(api, 200, *settled);
  });
  co_await exchange.respond(answer(std::move(response)));
}

}  // namespace

Result<http::Identity> authenticate(Api& api, const http::Request& request, Right right) {
  auto identity = api.keys.authenticate(request, ProjectId(request.params.at("project")));
  if (!identity) return identity;
  const std::string& role = identity->role;
  const bool allowed = role == "admin" || right == Right::kRead ||
                       (right == Right::kUse && role == "developer") ||
                       (right == Right::kBill && role == "billing");
  if (!allowed)
    return fail(Code::kForbidden, "Forbidden",
                "The role of this key, " + role + ", does not allow this. Use a key with another role.");
  return identity;
}

Result<Caller> authenticate_for_sandbox(Api& api, const http::Request& request, Right right) {
  auto identity = authenticate(api, request, right);
  if (!identity) return std::unexpected(std::move(identity.error()));
  auto sandbox = api.catalog.sandbox(identity->project, request.params.at("name"));
  if (!sandbox) return std::unexpected(std::move(sandbox.error()));
  return Caller{std::move(*identity), std::move(*sandbox)};
}

awaitable<std::optional<Error>> refuse_stranger(Api& api, http::Exchange& exchange) {
  auto identity = co_await blocking<http::Identity>(
      exchange, [&] { return authenticate(api, exchange.request(), Right::kUse); });
  if (identity) co_return std::nullopt;
  co_return std::move(identity.error());
}

awaitable<Result<Sandbox>> settle(Api& api, http::Exchange& exchange, Sandbox sandbox) {
  const auto open = [](const Sandbox& s) { return s.phase == Phase::kPending && !s.rate && !s.refusal; };
  const std::string stream = sandbox_stream(sandbox.uid);
  const Micros deadline = api.clock.boot() + api.options.trigger_patience;
  while (open(sandbox)) {
    const uint64_t ticket = api.waiters.ticket(stream);
    auto current = co_await blocking<Sandbox>(exchange, [&] { return api.catalog.sandbox(sandbox.uid); });
    if (!current) co_return std::unexpected(std::move(current.error()));
    sandbox = std::move(*current);
    const auto left = std::chrono::ceil<Millis>(deadline - api.clock.boot());
    if (!open(sandbox) || left <= Millis(0)) break;
    co_await api.waiters.wait(stream, ticket, left);
  }
  co_return sandbox;
}

Error not_yet(Api& api, const Sandbox& sandbox) {
  auto refused = api.sandboxes.refusal(sandbox);
  if (!refused) return refused.error();
  if (*refused) return std::move(**refused);
  return sandbox_starting(api, "Sandbox \"" + sandbox.name + "\" is starting.");
}

Error sandbox_starting(const Api& api, std::string message) {
  message += " Send the request again in " + std::to_string(api.options.retry_after_s) + " seconds.";
  return {Code::kUnavailable, "SandboxStarting", std::move(message), {}, api.options.retry_after_s, {}};
}

void object_routes(http::Server& server, Api& api) {
  const auto plain = [&](std::string method, std::string_view rest, std::string name, auto handler) {
    server.route({.method = std::move(method),
                  .pattern = route_path(rest),
                  .name = std::move(name),
                  .handler = [&api, handler](const http::Request& r) { return answer(handler(api, r)); },
                  .stream = {},
                  .body_bytes = {}});
  };
  const auto stream = [&](std::string method, std::string_view rest, std::string name, auto handler) {
    server.route({.method = std::move(method),
                  .pattern = route_path(rest),
                  .name = std::move(name),
                  .handler = {},
                  .stream = [&api, handler](http::Exchange& e) { return handler(api, e); },
                  .body_bytes = {}});
  };
  plain("GET", "sandboxes", "sandboxes.list", list_sandboxes);
  stream("POST", "sandboxes", "sandboxes.create", create_route);
  plain("GET", "sandboxes/{name}", "sandboxes.get", get_sandbox);
  stream("PATCH", "sandboxes/{name}", "sandboxes.patch", patch_route);
  plain("DELETE", "sandboxes/{name}", "sandboxes.delete", delete_sandbox);
  plain("GET", "processes", "processes.list", list_processes);
  plain("GET", "processes/{name}", "processes.get", get_process);
}

}  // namespace nodus::lifecycle
