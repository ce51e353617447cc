#include "services/lifecycle/adapters/api.hpp"

#include <fmt/core.h>

#include "libs/base/random.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/adapters/render.hpp"
#include "services/lifecycle/adapters/write_options.hpp"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr std::string_view kPrefix = "/apis/nodus.dev/v1/namespaces/{project}/";
constexpr size_t kOptionsBytes = 64 * 1024;
constexpr size_t kMaxIdempotencyKey = 128;

Result<http::Response> delete_sandbox(Api& api, const http::Identity& caller, const http::Request& request) {
  auto options = delete_options(request);
  if (!options) return std::unexpected(std::move(options.error()));
  auto view = api.catalog.view(caller.project, request.params.at("name"));
  if (!view) return std::unexpected(std::move(view.error()));
  if (auto holds = check(options->precondition, *view); !holds)
    return std::unexpected(std::move(holds.error()));
  const Terms terms{options->dry_run, options->precondition.resource_version};
  auto after = api.sandboxes.with(terms).remove(view->sandbox);
  if (!after) return std::unexpected(std::move(after.error()));
  const int code = after->phase == Phase::kDeleted ? 200 : 202;
  return options->dry_run ? dry_response(api, code, *view, std::move(*after))
                          : sandbox_response(api, code, *after);
}

Result<Created> create_from(Api& api, const http::Identity& caller, const http::Request& request,
                            const std::string& body, bool dry) {
  auto manifest = parse_manifest(body, caller.project, api.options.times);
  if (!manifest) return std::unexpected(std::move(manifest.error()));
  const auto key = request.headers.get("Idempotency-Key").value_or("");
  if (key.size() > kMaxIdempotencyKey)
    return fail(Code::kBadRequest, "BadRequest", "An Idempotency-Key has at most 128 bytes.");
  return api.sandboxes.with({.dry_run = dry})
      .create({.org = caller.org,
               .project = caller.project,
               .name = manifest->name,
               .labels = manifest->labels,
               .annotations = manifest->annotations,
               .spec = manifest->spec,
               .env = manifest->env,
               .run = manifest->run,
               .idempotency_key = dry ? "" : key,
               .input_hash = api.sandboxes.input_hash(body)});
}

awaitable<void> create_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  const auto dry = dry_run_of(exchange.request());
  if (!dry) co_return co_await exchange.respond(http::status(dry.error()));
  if (auto media = takes_json(exchange.request()); !media)
    co_return co_await exchange.respond(http::status(media.error()));
  auto body = co_await exchange.read_body(kManifestBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  auto created = co_await blocking<Created>(
      exchange, [&] { return create_from(api, caller, exchange.request(), *body, *dry); });
  if (!created) co_return co_await exchange.respond(http::status(created.error()));
  exchange.annotate(created->sandbox.name);
  if (*dry)
    co_return co_await exchange.respond(
        answer(dry_response(api, created->created ? 201 : 200, {}, std::move(created->sandbox))));
  auto settled = co_await settle(api, exchange, created->sandbox, Until::kAtRest);
  if (!settled) co_return co_await exchange.respond(http::status(settled.error()));
  const int code = created->created ? 201 : 200;
  auto response =
      co_await blocking<http::Response>(exchange, [&] { return sandbox_response(api, code, *settled); });
  co_await exchange.respond(answer(std::move(response)));
}

}  // namespace

Result<http::Response> sandbox_response(Api& api, int status, const Sandbox& sandbox) {
  auto view = api.catalog.view(sandbox.uid);
  if (!view) return std::unexpected(std::move(view.error()));
  return http::json(status, json::serialize(render_sandbox(*view, api.clock.now())));
}

http::Response dry_response(Api& api, int status, SandboxView before, Sandbox after) {
  before.sandbox = std::move(after);
  return http::json(status, json::serialize(render_sandbox(before, api.clock.now())));
}

http::Response answer(Result<http::Response> response) {
  return response ? std::move(*response) : http::status(response.error());
}

Result<Sandbox> find_sandbox(Api& api, const http::Identity& caller, const http::Request& request) {
  return api.catalog.sandbox(caller.project, request.params.at("name"));
}

awaitable<Result<Sandbox>> settle(Api& api, http::Exchange& exchange, Sandbox sandbox, Until until) {
  const auto open = [until](const Sandbox& s) {
    return s.phase == Phase::kPending && !s.rate && (!s.refusal || until == Until::kAtRest);
  };
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
      {.method = "DELETE",
       .pattern = path("sandboxes/{name}"),
       .name = "sandboxes.delete",
       .right = Right::kUse,
       .effect = Effect::kRemoves,
       .plain = delete_sandbox,
       .body_bytes = kOptionsBytes},
  };
}

}  // namespace nodus::lifecycle
