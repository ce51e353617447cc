// Bills come from metering.
#include "libs/http/target.hpp"
#include "services/lifecycle/adapters/metering_path.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

constexpr size_t kScope = 3;  // segments: apis, nodus.dev, v1, then namespaces or organizations, and a name
constexpr size_t kBodyBytes = 64 * 1024;

std::string target_of(const http::Request& request) {
  const auto& segments = request.segments;
  std::string target = segments.at(kScope) == "organizations" ? "/v1/organization" : "/v1";
  for (size_t i = kScope + 2; i < segments.size(); ++i) target += "/" + http::escape(segments[i]);
  const size_t mark = request.target.find('?');
  if (mark != std::string::npos) target += request.target.substr(mark);
  return target;
}

}  // namespace

awaitable<void> forward_to_metering(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  auto upstream = metering_at(api, caller, target_of(exchange.request()));
  upstream.body_limit = kBodyBytes;
  for (const char* name : {"Content-Type", "Idempotency-Key"})
    if (const auto value = exchange.request().headers.get(name)) upstream.headers.set(name, *value);
  auto passed = co_await exchange.proxy(std::move(upstream));
  if (passed) co_return;
  co_await exchange.respond(http::status(metering_away().error()));
}

http::Upstream metering_at(Api& api, const http::Identity& caller, std::string target) {
  http::Upstream upstream;
  upstream.host = api.options.metering_host;
  upstream.port = api.options.metering_port;
  upstream.target = std::move(target);
  upstream.headers.set("X-Nodus-Identity",
                       http::sign_identity(caller, api.options.identity_secret, api.clock.now()));
  return upstream;
}

std::unexpected<Error> metering_away() {
  return std::unexpected(Error{Code::kUnavailable,
                               "MeteringUnavailable",
                               "Bills and Budgets cannot be reached now. Try again.",
                               {},
                               2,
                               {}});
}

std::vector<PublicRoute> bill_routes() {
  const auto read = [](std::string pattern, std::string name) {
    return PublicRoute{.method = "GET",
                       .pattern = "/apis/nodus.dev/v1/" + std::move(pattern),
                       .name = std::move(name),
                       .right = Right::kBill,
                       .effect = Effect::kReads,
                       .stream = forward_to_metering};
  };
  return {read("namespaces/{project}/bill", "bill.get"),
          read("organizations/{org}/bill", "organizations.bill"),
          read("organizations/{org}/export", "organizations.export"),
          read("organizations/{org}/invoices", "invoices.list"),
          read("organizations/{org}/invoices/{number}", "invoices.get")};
}

}  // namespace nodus::lifecycle
