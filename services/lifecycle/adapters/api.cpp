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

Result<http::Response> sandbox_response(Api& api, int status, const Sandbox& sandbox) {
  auto busy = api.catalog.busy(sandbox.uid);
  if (!busy) return std::unexpected(std::move(busy.error()));
  return http::json(status, json::serialize(render_sandbox(sandbox, *busy, api.clock.now())));
}

http::Response answer(Result<http::Response> response) {
  return response ? std::move(*response) : http::status(response.error());
}

Result<int> page_limit(const http::Request& request) {
  const auto text = request.query_value("limit");
  if (!text) return 500;
  if (text->empty() || text->size() > 3 || text->find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(*text) < 1 || std::stoi(*text) > 500)
    return fail(Code::kInvalid, "Invalid", "limit: a number from 1 to 500.");
  return std::stoi(*text);
}

Result<http::Response> list_sandboxes(Api& api, const http::Identity& caller, const http::Request& request) {
  auto limit = page_limit(request);
  if (!limit) return std::unexpected(std::move(limit.error()));
  auto found = api.catalog.sandboxes(caller.project, {*limit, request.query_value("continue").value_or("")});
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

Result<http::Response> get_sandbox(Api& api, const http::Identity& caller, const http::Request& request) {
  auto sandbox = find_sandbox(api, caller, request);
  if (!sandbox) return std::unexpected(std::move(sandbox.error()));
  return sandbox_response(api, 200, *sandbox);
}

Result<http::Response> delete_sandbox(Api& api, const http::Identity& caller, const http::Request& request) {
  auto sandbox = find_sandbox(api, caller, request);
  if (!sandbox) return std::unexpected(std::move(sandbox.error()));
  auto after = api.sandboxes.remove(*sandbox);
  if (!after) return std::unexpected(std::move(after.error()));
  return sandbox_response(api, after->phase == Phase::kDeleted ? 200 : 202, *after);
}

Result<http::Response> list_processes(Api& api, const http::Identity& caller, const http::Request& request) {
  auto limit = page_limit(request);
  if (!limit) return std::unexpected(std::move(limit.error()));
  auto found = api.catalog.processes(caller.project, request.query_value("sandbox").value_or(""), *limit);
  if (!found) return std::unexpected(std::move(found.error()));
  json::array items;
  for (const auto& process : *found) items.push_back(render_process(process));
  return http::json(200, json::serialize(json::object{{"apiVersion", "nodus.dev/v1"},
                                                      {"kind", "ProcessList"},
                                                      {"metadata", json::object{}},
                                                      {"items", std::move(items)}}));
}

Result<http::Response> get_process(Api& api, const http::Identity& caller, const http::Request& request) {
  auto process = api.catalog.process(caller.project, request.params.at("name"));
  if (!process) return std::unexpected(std::move(process.error()));
  return http::json(200, json::serialize(render_process(*process)));
}

Result<Created> create_from(Api& api, const http::Identity& caller, const http::Request& request,
                            const std::string& body) {
  auto manifest = parse_manifest(body, caller.project, api.options.times);
  if (!manifest) return std::unexpected(std::move(manifest.error()));
  const auto key = request.headers.get("Idempotency-Key").value_or("");
  if (key.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  return api.sandboxes.create({.org = caller.org,
                               .project = caller.project,
                               .name = manifest->name,
                               .labels = manifest->labels,
                               .annotations = manifest->annotations,
                               .spec = manifest->spec,
                               .run = manifest->run,
                               .idempotency_key = key,
                               .input_hash = sha256_hex(body)});
}

awaitable<void> create_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto body = co_await exchange.read_body(kManifestBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  auto created = co_await blocking<Created>(
      exchange, [&] { return create_from(api, caller, exchange.request(), *body); });
  if (!created) co_return co_await exchange.respond(http::status(created.error()));
  auto settled = co_await settle(api, exchange, created->sandbox);
  if (!settled) co_return co_await exchange.respond(http::status(settled.error()));
  const int code = created->created ? 201 : 200;
  auto response =
      co_await blocking<http::Response>(exchange, [&] { return sandbox_response(api, code, *settled); });
  co_await exchange.respond(answer(std::move(response)));
}

Result<Sandbox> patch_with(Api& api, const http::Identity& caller, const http::Request& request,
                           const std::string& body) {
  auto found = find_sandbox(api, caller, request);
  if (!found) return std::unexpected(std::move(found.error()));
  auto patch = parse_patch(body);
  if (!patch) return std::unexpected(std::move(patch.error()));
  Sandbox sandbox = std::move(*found);
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

awaitable<void> patch_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto body = co_await exchange.read_body(kManifestBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  auto after = co_await blocking<Sandbox>(exchange,
                                          [&] { return patch_with(api, caller, exchange.request(), *body); });
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

Result<Sandbox> find_sandbox(Api& api, const http::Identity& caller, const http::Request& request) {
  return api.catalog.sandbox(caller.project, request.params.at("name"));
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

std::vector<PublicRoute> object_routes() {
  const auto path = [](std::string_view rest) { return std::string(kPrefix) + std::string(rest); };
  return {
      {.method = "GET",
       .pattern = path("sandboxes"),
       .name = "sandboxes.list",
       .right = Right::kRead,
       .effect = Effect::kReads,
       .plain = list_sandboxes},
      {.method = "POST",
       .pattern = path("sandboxes"),
       .name = "sandboxes.create",
       .right = Right::kUse,
       .effect = Effect::kChanges,
       .stream = create_route},
      {.method = "GET",
       .pattern = path("sandboxes/{name}"),
       .name = "sandboxes.get",
       .right = Right::kRead,
       .effect = Effect::kReads,
       .plain = get_sandbox},
      {.method = "PATCH",
       .pattern = path("sandboxes/{name}"),
       .name = "sandboxes.patch",
       .right = Right::kUse,
       .effect = Effect::kChanges,
       .stream = patch_route},
      {.method = "DELETE",
       .pattern = path("sandboxes/{name}"),
       .name = "sandboxes.delete",
       .right = Right::kUse,
       .effect = Effect::kRemoves,
       .plain = delete_sandbox},
      {.method = "GET",
       .pattern = path("processes"),
       .name = "processes.list",
       .right = Right::kRead,
       .effect = Effect::kReads,
       .plain = list_processes},
      {.method = "GET",
       .pattern = path("processes/{name}"),
       .name = "processes.get",
       .right = Right::kRead,
       .effect = Effect::kReads,
       .plain = get_process},
  };
}

}  // namespace nodus::lifecycle
