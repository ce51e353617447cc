// Files: the Sandbox is woken when it does not run, then the request is handed on to its node.
#include "services/lifecycle/adapters/node_path.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

std::string query_of(const http::Request& request) {
  const size_t mark = request.target.find('?');
  return mark == std::string::npos ? "" : request.target.substr(mark);
}

awaitable<void> files_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
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
  for (const auto* name : {"Content-Type", "Range"})
    if (const auto value = exchange.request().headers.get(name)) upstream.headers.set(name, *value);
  upstream.body_limit = api.options.file_limit_bytes;
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
