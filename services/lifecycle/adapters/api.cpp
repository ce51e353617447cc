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
  auto view = api.catalog.view(sandbox.uid);
  if (!view) return std::unexpected(std::move(view.error()));
  return http::json(status, json::serialize(render_sandbox(*view, api.clock.now())));
}

http::Response answer(Result<http::Response> response) {
  return response ? std::move(*response) : http::status(response.error());
}

Result<http::Response> delete_sandbox(Api& api, const http::Identity& caller, const http::Request& request) {
  auto sandbox = find_sandbox(api, caller, request);
  if (!sandbox) return std::unexpected(std::move(sandbox.error()));
  auto after = api.sandboxes.remove(*sandbox);
  if (!after) return std::unexpected(std::move(after.error()));
  return sandbox_response(api, after->phase == Phase::kDeleted ? 200 : 202, *after);
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
                               .env = manifest->env,
                               .run = manifest->run,
                               .idempotency_key = key,
                               .input_hash = api.sandboxes.input_hash(body)});
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
      {.method = "POST",
       .pattern = path("sandboxes"),
       .name = "sandboxes.create",
       .right = Right::kUse,
       .effect = Effect::kChanges,
       .stream = create_route},
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
  };
}

}  // namespace nodus::lifecycle
