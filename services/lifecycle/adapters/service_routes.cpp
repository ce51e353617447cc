// Bills come from metering.
#include "services/lifecycle/adapters/api.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

awaitable<void> bill_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  const auto& target = exchange.request().target;
  const size_t mark = target.find('?');
  http::Upstream upstream;
  upstream.host = api.options.metering_host;
  upstream.port = api.options.metering_port;
  upstream.target = "/v1/bill" + (mark == std::string::npos ? "" : target.substr(mark));
  upstream.headers.set("X-Nodus-Identity",
                       http::sign_identity(caller, api.options.identity_secret, api.clock.now()));
  auto passed = co_await exchange.proxy(std::move(upstream));
  if (passed) co_return;
  Error away{Code::kUnavailable, "MeteringUnavailable", "The bill cannot be read now. Try again.", {}, 2, {}};
  co_await exchange.respond(http::status(away));
}

}  // namespace

std::vector<PublicRoute> bill_routes() {
  return {{.method = "GET",
           .pattern = "/apis/nodus.dev/v1/namespaces/{project}/bill",
           .name = "bill.get",
           .right = Right::kBill,
           .effect = Effect::kReads,
           .stream = bill_route}};
}

}  // namespace nodus::lifecycle
