#include "services/lifecycle/adapters/node_path.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <memory>

#include "libs/http/client.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

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

RefuseUnlessKnown refuse_at_node(std::string node_secret) {
  const auto client = std::make_shared<http::Client>();
  return [client, secret = std::move(node_secret)](const Sandbox& sandbox,
                                                   const ProcessAdmitted& process) -> Result<void> {
    http::ClientRequest request;
    request.method = "POST";
    request.url = fmt::format("http://{}/v1/slots/{}/epochs/{}/processes/{}/refuse", sandbox.data_path,
                              sandbox.uid.str(), process.epoch, process.uid.str());
    request.headers.set("Authorization", "Bearer " + http::node_token(secret, MachineId(process.machine)));
    request.headers.set("Content-Type", "application/json");
    request.body = boost::json::serialize(boost::json::object{{"name", process.name}});
    request.connect_time = Millis(1'000);
    request.total_time = Millis(5'000);
    auto answer = client->call(request);
    if (!answer) return std::unexpected(std::move(answer.error()));
    if (answer->status / 100 != 2) return std::unexpected(http::parse_status(*answer));
    return {};
  };
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

}  // namespace nodus::lifecycle
