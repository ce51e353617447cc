#include "tests/integration/lifecycle/tenant_world.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "libs/http/client.hpp"
#include "services/lifecycle/adapters/changes.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::lifecycle {

namespace {

pg::ConnectOptions fresh_schema() {
  return {.url = test::fresh_database(test::migrations_of("lifecycle"), "lifecycle"),
          .schema = "lifecycle",
          .application_name = "test"};
}

ApiOptions api_options(const WorldOptions& options) {
  ApiOptions out;
  out.node_secret = "node";
  out.identity_secret = "identity";
  out.metering_host = "127.0.0.1";
  out.metering_port = 1;  // nobody: bills are away
  out.trigger_patience = Millis(0);
  out.quotas = options.quotas;
  return out;
}

}  // namespace

TenantWorld::Outputs::Outputs() {
  std::string name = (std::filesystem::temp_directory_path() / "nodus-outputs-XXXXXX").native();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  directory = name;
  store = std::move(*make_directory_output_store(directory, {}));
}

TenantWorld::TenantWorld(const WorldOptions& options)
    : environment(*SealedEnvironment::make(std::string(64, '1'))),
      pool(fresh_schema(), 24),
      log(*eventlog::make_postgres_log(clock, pool, 4)),
      batcher(*log, {}),
      catalog(*log, pool),
      sandboxes(batcher, catalog, images, environment, clock, options.quotas),
      keys(pool, clock),
      tenants(pool, clock),
      limits(clock, options.limits),
      audit(pool, options.audit),
      open_streams(keys),
      keeper(batcher, pool, clock, open_streams),
      feed(catalog, waiters, {}),
      api{sandboxes, catalog, keys,   batcher, feed,         *outputs.store,      waiters,
          clock,     tenants, limits, audit,   open_streams, api_options(options)},
      server_({.listen = "127.0.0.1:0", .io_threads = 2, .workers = 8}) {
  EXPECT_TRUE(eventlog::ensure_ranges(pool).has_value());
  log->on_append([this](pg::Tx& tx, std::vector<std::any>& notes) { write_changes(tx, notes, clock.now()); });
}

void TenantWorld::serve(std::vector<PublicRoute> table) {
  dispatch_routes(server_, api, std::move(table));
  ASSERT_TRUE(server_.start().has_value());
}

void TenantWorld::make_organization(const std::string& name) {
  ASSERT_TRUE(tenants.create_organization(OrgId(name), "").has_value());
  ASSERT_TRUE(tenants.create_project(OrgId(name), "web").has_value());
  for (const char* role : {"viewer", "developer", "billing", "admin"}) make_key(name, role, role);
}

std::string TenantWorld::make_key(const std::string& org, const std::string& name, const std::string& role,
                                  const std::string& project, std::optional<Instant> expires_at) {
  auto made = tenants.create_key(OrgId(org), {name, role, project, "", expires_at});
  EXPECT_TRUE(made.has_value());
  return secrets_[org + "/" + name] = made->secret;
}

http::Response TenantWorld::call(const std::string& secret, const std::string& method,
                                 const std::string& path, const std::string& body) {
  thread_local http::Client client;
  http::ClientRequest request;
  request.method = method;
  request.url = "http://127.0.0.1:" + std::to_string(server_.port()) +
                (path.starts_with("/api") ? path : "/apis/nodus.dev/v1" + path);
  request.body = body;
  if (!body.empty())
    request.headers.set("Content-Type",
                        method == "PATCH" ? "application/merge-patch+json" : "application/json");
  if (!secret.empty())
    request.headers.set("Authorization", secret.starts_with("nodus_") ? "Bearer " + secret : secret);
  auto response = client.call(request);
  EXPECT_TRUE(response.has_value()) << method << " " << path << ": "
                                    << (response ? "" : response.error().message);
  return response ? std::move(*response) : http::Response{0, {}, ""};
}

http::Response TenantWorld::create(const std::string& secret, const std::string& name,
                                   const std::string& project) {
  return call(secret, "POST", "/namespaces/" + project + "/sandboxes",
              R"({"apiVersion":"nodus.dev/v1","kind":"Sandbox","metadata":{"name":")" + name +
                  R"("},"spec":{"image":"nodus/busybox","resources":{"cpu":"1","memory":"1Gi"}}})");
}

int64_t TenantWorld::number(const std::string& sql) {
  auto found = pool.with_tx([&](pg::Tx& tx) -> Result<int64_t> { return tx.exec1(sql)[0].as<int64_t>(); });
  EXPECT_TRUE(found.has_value()) << sql;
  return found.value_or(-1);
}

std::string string_at(const http::Response& response, std::string_view pointer) {
  boost::system::error_code fault;
  const auto body = boost::json::parse(response.body, fault);
  const auto* found = fault ? nullptr : body.find_pointer(pointer, fault);
  if (found == nullptr) return "";
  return found->is_string() ? std::string(found->get_string()) : boost::json::serialize(*found);
}

std::string reason_of(const http::Response& response) {
  return string_at(response, "/kind") == "Status" ? string_at(response, "/reason") : "";
}

}  // namespace nodus::lifecycle
