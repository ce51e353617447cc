// Bills and Budgets come from metering.
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
  http::Upstream upstream;
  upstream.host = api.options.metering_host;
  upstream.port = api.options.metering_port;
  upstream.target = target_of(exchange.request());
  upstream.body_limit = kBodyBytes;
  upstream.headers.set("X-Nodus-Identity",
                       http::sign_identity(caller, api.options.identity_secret, api.clock.now()));
  for (const char* name : {"Content-Type", "Idempotency-Key"})
    if (const auto value = exchange.request().headers.get(name)) upstream.headers.set(name, *value);
  auto passed = co_await exchange.proxy(std::move(upstream));
  if (passed) co_return;
  Error away{Code::kUnavailable,
             "MeteringUnavailable",
             "Bills and Budgets cannot be reached now. Try again.",
             {},
             2,
             {}};
  co_await exchange.respond(http::status(away));
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
  const auto budgets = [](std::string method, std::string verb, Right right, Effect effect) {
    const bool whole = verb == "list" || verb == "create";
    return PublicRoute{
        .method = std::move(method),
        .pattern = std::string("/apis/nodus.dev/v1/namespaces/{project}/budgets") + (whole ? "" : "/{name}"),
        .name = "budgets." + verb,
        .right = right,
        .effect = effect,
        .stream = forward_to_metering};
  };
  return {read("namespaces/{project}/bill", "bill.get"),
          read("organizations/{org}/bill", "organizations.bill"),
          read("organizations/{org}/export", "organizations.export"),
          read("organizations/{org}/invoices", "invoices.list"),
          read("organizations/{org}/invoices/{number}", "invoices.get"),
          budgets("GET", "list", Right::kRead, Effect::kReads),
          budgets("GET", "get", Right::kRead, Effect::kReads),
          budgets("POST", "create", Right::kBill, Effect::kChanges),
          budgets("PUT", "replace", Right::kBill, Effect::kChanges),
          budgets("PATCH", "patch", Right::kBill, Effect::kChanges),
          budgets("DELETE", "delete", Right::kBill, Effect::kRemoves)};
}

}  // namespace nodus::lifecycle
