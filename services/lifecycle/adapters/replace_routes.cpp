// Changing a Sandbox that is there: a merge patch (RFC 7396) of it, or a PUT of the whole. Both give what it
// shall be; only labels, annotations, spec.state and spec.maxCostUSD (raised) may differ from what it is. PUT
// makes nothing: create is POST.
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/adapters/render.hpp"
#include "services/lifecycle/adapters/write_options.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

struct Changed {
  SandboxView before;
  Sandbox after;
  bool dry = false;
  bool start = false;  // was asked for
};

// What of the object a client decides; a patch is laid over this.
json::object decided(const SandboxView& view, Instant now) {
  json::object out = render_sandbox(view, now);
  out.erase("status");
  auto& metadata = out.at("metadata").as_object();
  for (const std::string_view ours :
       {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"})
    metadata.erase(ours);
  return out;
}

// The state that a patch asks for: Running starts also what stopped as idle, though its spec.state is
// Running.
Result<bool> names_state(const json::object& patch) {
  const auto* spec = patch.if_contains("spec");
  if (!spec || !spec->is_object()) return false;
  const auto* state = spec->get_object().if_contains("state");
  if (state && state->is_null())
    return fail(Code::kInvalid, "Invalid", "spec.state: it cannot be removed; send Running or Stopped.");
  return state != nullptr;
}

Result<Manifest> wanted_of(Api& api, const SandboxView& view, const json::object& body, bool patch) {
  json::value whole = body;
  if (patch) {
    whole = decided(view, api.clock.now());
    merge(whole, body);
  }
  auto manifest = parse_manifest(json::serialize(whole), view.sandbox.project, api.options.times);
  if (!manifest) return manifest;
  if (manifest->name != view.sandbox.name)
    return fail(Code::kInvalid, "Invalid", "metadata.name: it is that of the path, and cannot change.");
  return manifest;
}

Result<Changed> change(Api& api, const http::Identity& caller, const http::Request& request,
                       const std::string& text, bool patch) {
  const auto dry = dry_run_of(request);
  if (!dry) return std::unexpected(dry.error());
  auto view = api.catalog.view(caller.project, request.params.at("name"));
  if (!view) return std::unexpected(std::move(view.error()));
  auto body = parse_object(text);
  if (!body) return std::unexpected(std::move(body.error()));
  auto precondition = precondition_of(*body);
  if (!precondition) return std::unexpected(std::move(precondition.error()));
  if (auto holds = check(*precondition, *view); !holds) return std::unexpected(std::move(holds.error()));
  auto names = patch ? names_state(*body) : Result<bool>(false);
  if (!names) return std::unexpected(std::move(names.error()));
  auto manifest = wanted_of(api, *view, *body, patch);
  if (!manifest) return std::unexpected(std::move(manifest.error()));
  std::optional<bool> run;
  if (*names || manifest->run != view->sandbox.wants_running) run = manifest->run;
  NewSandbox wanted;
  wanted.labels = manifest->labels;
  wanted.annotations = manifest->annotations;
  wanted.spec = manifest->spec;
  wanted.env = manifest->env;
  auto after = api.sandboxes.with({*dry, precondition->resource_version}).replace(view->sandbox, wanted, run);
  if (!after) return std::unexpected(std::move(after.error()));
  return Changed{std::move(*view), std::move(*after), *dry, run == true};
}

awaitable<void> change_route(Api& api, const http::Identity& caller, http::Exchange& exchange, bool patch) {
  const auto media = patch ? takes_merge_patch(exchange.request()) : takes_json(exchange.request());
  if (!media) co_return co_await exchange.respond(http::status(media.error()));
  auto body = co_await exchange.read_body(kManifestBytes);
  if (!body) co_return co_await exchange.respond(http::status(body.error()));
  auto changed = co_await blocking<Changed>(
      exchange, [&] { return change(api, caller, exchange.request(), *body, patch); });
  if (!changed) co_return co_await exchange.respond(http::status(changed.error()));
  if (changed->dry)
    co_return co_await exchange.respond(
        dry_response(api, 200, std::move(changed->before), std::move(changed->after)));
  auto settled = co_await settle(api, exchange, changed->after);
  if (!settled) co_return co_await exchange.respond(http::status(settled.error()));
  auto response = co_await blocking<http::Response>(exchange, [&]() -> Result<http::Response> {
    // A start that was refused says so, whether or not its offer is closed by now.
    if (changed->start && settled->refusal && settled->start == changed->after.start)
      return std::unexpected(not_yet(api, *settled));
    return sandbox_response(api, 200, *settled);
  });
  co_await exchange.respond(answer(std::move(response)));
}

awaitable<void> patch_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  return change_route(api, caller, exchange, true);
}
awaitable<void> put_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  return change_route(api, caller, exchange, false);
}

}  // namespace

std::vector<PublicRoute> replace_routes() {
  const std::string path = "/apis/nodus.dev/v1/namespaces/{project}/sandboxes/{name}";
  return {{.method = "PATCH",
           .pattern = path,
           .name = "sandboxes.patch",
           .right = Right::kUse,
           .effect = Effect::kChanges,
           .stream = patch_route},
          {.method = "PUT",
           .pattern = path,
           .name = "sandboxes.replace",
           .right = Right::kUse,
           .effect = Effect::kChanges,
           .stream = put_route}};
}

}  // namespace nodus::lifecycle
