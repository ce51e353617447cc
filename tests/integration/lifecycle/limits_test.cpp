// What a key may ask for at once, and what becomes of its streams.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/integration/lifecycle/tenant_world.hpp"
#include "tests/unit/http/raw.hpp"

namespace nodus::lifecycle {
namespace {

TEST(Limits, AKeyIsLimitedAndSaysWhenToComeAgain) {
  TenantWorld world(
      {.limits = {.requests_per_s = 10, .burst = 20, .open_per_key = 100, .open_per_org = 100}});
  for (const char* org : {"acme", "rival"}) world.make_organization(org);
  world.serve();
  const auto ask = [&](const std::string& key) {
    return world.call(world.secret_of(key), "GET", "/namespaces/web/sandboxes");
  };
  for (int i = 0; i < 20; ++i) ASSERT_EQ(ask("acme/viewer").status, 200);
  const auto refused = ask("acme/viewer");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(reason_of(refused), "TooManyRequests");
  EXPECT_EQ(refused.headers.get("Retry-After"), "1");
  EXPECT_EQ(ask("acme/developer").status, 200) << "another key";
  EXPECT_EQ(ask("rival/viewer").status, 200) << "another organization";
  world.clock.advance(Millis(100));
  EXPECT_EQ(ask("acme/viewer").status, 200);
  EXPECT_EQ(ask("acme/viewer").status, 429);
}

// Streams that stay open until told.
std::atomic<bool> release_streams;
boost::asio::awaitable<void> hold(Api& api, const http::Identity&, http::Exchange& exchange) {
  co_await exchange.begin(200, {});
  while (!release_streams) {
    co_await api.waiters.wait("held", api.waiters.ticket("held"), Millis(20));
    if (!co_await exchange.write(".")) co_return;
  }
  co_await exchange.finish();
}

std::vector<PublicRoute> held_table() {
  auto table = public_routes();
  table.push_back({.method = "GET",
                   .pattern = "/apis/nodus.dev/v1/namespaces/{project}/held",
                   .name = "held.get",
                   .right = Right::kRead,
                   .effect = Effect::kReads,
                   .stream = hold});
  return table;
}

std::string held_request(const std::string& secret) {
  return "GET /apis/nodus.dev/v1/namespaces/web/held HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + secret +
         "\r\n\r\n";
}

TEST(Streams, OpenOnesOfAKeyAndAnOrganizationAreLimited) {
  release_streams = false;
  TenantWorld world(
      {.limits = {.requests_per_s = 1'000, .burst = 1'000, .open_per_key = 2, .open_per_org = 3}});
  for (const char* org : {"acme", "rival"}) world.make_organization(org);
  world.serve(held_table());
  std::vector<std::unique_ptr<http::Raw>> held;
  for (const char* key : {"acme/viewer", "acme/viewer", "acme/admin"}) {
    held.push_back(std::make_unique<http::Raw>(world.port()));
    held.back()->send(held_request(world.secret_of(key)));
    ASSERT_TRUE(held.back()->read_some().starts_with("HTTP/1.1 200"));
  }
  const auto status = [&](const char* key) {
    return world.call(world.secret_of(key), "GET", "/namespaces/web/sandboxes").status;
  };
  EXPECT_EQ(status("acme/viewer"), 429) << "two are open";
  EXPECT_EQ(status("acme/admin"), 429) << "three of the organization are open";
  EXPECT_EQ(status("rival/admin"), 200);
  held.clear();  // clients that leave free their place
  EXPECT_TRUE(http::eventually([&] { return status("acme/viewer") == 200; }));
  release_streams = true;
}

TEST(Streams, ThoseOfARevokedKeyAreCut) {
  release_streams = false;
  TenantWorld world;
  world.make_organization("acme");
  world.serve(held_table());
  http::Raw revoked(world.port());
  http::Raw other(world.port());
  revoked.send(held_request(world.secret_of("acme/viewer")));
  other.send(held_request(world.secret_of("acme/developer")));
  ASSERT_TRUE(revoked.read_some().starts_with("HTTP/1.1 200"));
  ASSERT_TRUE(other.read_some().starts_with("HTTP/1.1 200"));
  world.call(world.secret_of("acme/admin"), "DELETE", "/organizations/acme/keys/viewer");
  world.open_streams.check();
  while (!revoked.read_some().empty()) {
  }
  EXPECT_TRUE(http::eventually([&] { return world.open_streams.size() == 1; }));
  EXPECT_FALSE(other.read_some().empty());
  release_streams = true;
}

}  // namespace
}  // namespace nodus::lifecycle
