// Prices, quotes, credits and payments: metering answers.
#include "services/lifecycle/adapters/metering_path.hpp"

namespace nodus::lifecycle {

using boost::asio::awaitable;

namespace {

constexpr size_t kWebhookBytes = 256 * 1024;

awaitable<void> forward(Api& api, http::Exchange& exchange, std::string path, http::Headers headers,
                        size_t body_limit = 0) {
  const auto& target = exchange.request().target;
  const size_t mark = target.find('?');
  http::Upstream upstream;
  upstream.host = api.options.metering_host;
  upstream.port = api.options.metering_port;
  upstream.target = std::move(path) + (mark == std::string::npos ? "" : target.substr(mark));
  upstream.headers = std::move(headers);
  upstream.body_limit = body_limit;
  auto passed = co_await exchange.proxy(std::move(upstream));
  if (passed) co_return;
  Error away{Code::kUnavailable, "MeteringUnavailable", "Metering is away. Try again.", {}, 2, {}};
  co_await exchange.respond(http::status(away));
}

awaitable<void> prices(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  http::Headers headers;
  headers.set("X-Nodus-Identity", http::sign_identity(caller, api.options.identity_secret, api.clock.now()));
  co_await forward(api, exchange, "/v1/prices", std::move(headers));
}

// Without a key: the body is signed by who sends it, and metering checks that.
awaitable<void> stripe(Api& api, const http::Identity&, http::Exchange& exchange) {
  http::Headers headers;
  for (const char* name : {"Stripe-Signature", "Content-Type"})
    if (const auto value = exchange.request().headers.get(name)) headers.set(name, *value);
  co_await forward(api, exchange, "/webhooks/stripe", std::move(headers), kWebhookBytes);
}

}  // namespace

std::vector<PublicRoute> money_routes() {
  const auto read = [](std::string pattern, std::string name, Right right, StreamHandler handler) {
    return PublicRoute{.method = "GET",
                       .pattern = "/apis/nodus.dev/v1/" + std::move(pattern),
                       .name = std::move(name),
                       .right = right,
                       .effect = Effect::kReads,
                       .stream = handler};
  };
  return {read("prices", "prices.list", Right::kRead, prices),
          read("namespaces/{project}/quote", "quotes.get", Right::kRead, forward_to_metering),
          read("organizations/{org}/balance", "organizations.balance", Right::kBill, forward_to_metering),
          read("organizations/{org}/credits", "organizations.credits", Right::kBill, forward_to_metering),
          {.method = "POST",
           .pattern = "/webhooks/stripe",
           .name = "webhooks.stripe",
           .right = Right::kNobody,
           .effect = Effect::kChanges,
           .stream = stripe}};
}

}  // namespace nodus::lifecycle
