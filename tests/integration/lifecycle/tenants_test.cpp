// Organizations, projects, keys, limits and the audit log, through the API of a running server.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>
#include <regex>
#include <thread>

#include "libs/base/random.hpp"
#include "services/lifecycle/app/works.hpp"
#include "tests/integration/lifecycle/tenant_world.hpp"

namespace nodus::lifecycle {
namespace {

std::string object(const std::string& kind, const std::string& name, const std::string& spec = "{}") {
  return R"({"apiVersion":"nodus.dev/v1","kind":")" + kind + R"(","metadata":{"name":")" + name + R"("})" +
         (kind == "Project" ? "" : R"(,"spec":)" + spec) + "}";
}

class TenantsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* org : {"acme", "rival"}) world_.make_organization(org);
    world_.serve();
  }
  const std::string& admin() const { return world_.secret_of("acme/admin"); }
  int status_of(const std::string& secret) { return world_.call(secret, "GET", "/organizations").status; }

  TenantWorld world_;
};

TEST_F(TenantsTest, AKeyIsShownOnceAndKeptAsItsHash) {
  const auto made = world_.call(admin(), "POST", "/organizations/acme/keys",
                                object("APIKey", "ci", R"({"role":"developer","project":"web"})"));
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.headers.get("Cache-Control"), "no-store");
  const std::string secret = string_at(made, "/status/key");
  ASSERT_TRUE(secret.starts_with("nodus_") && secret.size() == 49) << secret;
  EXPECT_EQ(status_of(secret), 200);
  for (const char* path : {"/organizations/acme/keys", "/organizations/acme/keys/ci"}) {
    const auto shown = world_.call(admin(), "GET", path);
    EXPECT_EQ(shown.status, 200);
    EXPECT_FALSE(shown.body.contains(secret));
    EXPECT_TRUE(shown.body.contains(secret.substr(0, 10)));  // a hint
    EXPECT_FALSE(shown.body.contains(sha256_hex(secret)));
  }
  EXPECT_EQ(world_.number("SELECT count(*) FROM api_key_secrets WHERE sha256 = '" + sha256_hex(secret) + "'"),
            1);
  // Nowhere in the database.
  ASSERT_TRUE(world_.audit.flush().has_value());
  for (const char* table : {"api_keys", "api_key_secrets", "audit", "heads", "events", "idempotency"})
    EXPECT_EQ(world_.number(std::string("SELECT count(*) FROM ") + table + " t WHERE t::text LIKE '%" +
                            secret + "%'"),
              0)
        << table;
}

TEST_F(TenantsTest, FaultsOfAKeyAreNamedAllAtOnce) {
  const auto response = world_.call(
      admin(), "POST", "/organizations/acme/keys",
      object("APIKey", "No Name",
             R"({"role":"root","expiresAfter":"soon","expiresAt":"2001-01-01T00:00:00Z","x":1})"));
  EXPECT_EQ(response.status, 422);
  for (const char* field : {"metadata.name", "spec.role", "spec.expiresAfter", "spec.expiresAt", "spec.x"})
    EXPECT_TRUE(response.body.contains(field)) << field << " in " << response.body;
  for (const std::string& body : {std::string(), std::string("[]"), std::string("{"), std::string("null")})
    EXPECT_EQ(world_.call(admin(), "POST", "/organizations/acme/keys", body).status, 400) << body;
  EXPECT_EQ(
      world_
          .call(admin(), "POST", "/organizations/acme/keys", object("APIKey", "admin", R"({"role":"admin"})"))
          .status,
      409);
  EXPECT_EQ(world_
                .call(admin(), "POST", "/organizations/acme/keys",
                      object("APIKey", "x", R"({"role":"admin","project":"none"})"))
                .status,
            404);
}

TEST_F(TenantsTest, RotationKeepsBothForTheOverlap) {
  const std::string old = world_.secret_of("acme/developer");
  const auto rotated =
      world_.call(admin(), "POST", "/organizations/acme/keys/developer/rotate", R"({"overlap":"10m"})");
  ASSERT_EQ(rotated.status, 200) << rotated.body;
  const std::string fresh = string_at(rotated, "/status/key");
  EXPECT_EQ(status_of(old), 200);
  EXPECT_EQ(status_of(fresh), 200);
  world_.clock.advance(std::chrono::minutes(10) - Micros(1));
  EXPECT_EQ(status_of(old), 200);
  world_.clock.advance(Micros(1));  // to the instant, also for what was kept in memory
  EXPECT_EQ(status_of(old), 401);
  EXPECT_EQ(status_of(fresh), 200);
  // At once, and by itself.
  const auto again =
      world_.call(fresh, "POST", "/organizations/acme/keys/developer/rotate", R"({"overlap":"0s"})");
  EXPECT_EQ(again.status, 403);
  const auto self =
      world_.call(admin(), "POST", "/organizations/acme/keys/admin/rotate", R"({"overlap":"0s"})");
  EXPECT_EQ(self.status, 200);
  EXPECT_EQ(status_of(admin()), 401);
  EXPECT_EQ(status_of(string_at(self, "/status/key")), 200);
}

TEST_F(TenantsTest, ARotationWhoseAnswerWasLostIsRepeatedAndOldSecretsAreBounded) {
  const std::string old = world_.secret_of("acme/viewer");
  int last = 0;
  for (int i = 0; i < 6; ++i)
    last =
        world_.call(admin(), "POST", "/organizations/acme/keys/viewer/rotate", R"({"overlap":"1h"})").status;
  EXPECT_EQ(status_of(old), 200);
  EXPECT_EQ(last, 409);
  EXPECT_EQ(
      world_.call(admin(), "POST", "/organizations/acme/keys/viewer/rotate", R"({"overlap":"0s"})").status,
      200);
  EXPECT_EQ(status_of(old), 401);
}

TEST_F(TenantsTest, AKeyEndsToTheInstantOfItsExpiry) {
  const auto made = world_.call(admin(), "POST", "/organizations/acme/keys",
                                object("APIKey", "short", R"({"role":"viewer","expiresAfter":"1s"})"));
  const std::string secret = string_at(made, "/status/key");
  EXPECT_EQ(status_of(secret), 200);
  world_.clock.advance(Micros(999'999));
  EXPECT_EQ(status_of(secret), 200);
  world_.clock.advance(Micros(1));
  EXPECT_EQ(status_of(secret), 401);
}

TEST_F(TenantsTest, RevocationIsEffectiveAtOnceAndElsewhereWithinASecond) {
  const std::string& secret = world_.secret_of("acme/developer");
  EXPECT_EQ(status_of(secret), 200);
  EXPECT_EQ(world_.call(admin(), "DELETE", "/organizations/acme/keys/developer").status, 200);
  EXPECT_EQ(status_of(secret), 401);
  EXPECT_EQ(world_.call(admin(), "GET", "/organizations/acme/keys/developer").status, 404);
  // By another replica, or the operator: this process learns it from the table.
  EXPECT_EQ(status_of(world_.secret_of("acme/viewer")), 200);
  ASSERT_TRUE(world_.tenants.revoke_key(OrgId("acme"), "viewer").has_value());
  world_.clock.advance(Seconds(1));
  EXPECT_EQ(status_of(world_.secret_of("acme/viewer")), 401);
  // The name is free again, for another key.
  EXPECT_EQ(world_
                .call(admin(), "POST", "/organizations/acme/keys",
                      object("APIKey", "viewer", R"({"role":"viewer"})"))
                .status,
            201);
  EXPECT_EQ(status_of(world_.secret_of("acme/viewer")), 401);
}

TEST_F(TenantsTest, TheLastAdminKeyStays) {
  const auto refused = world_.call(admin(), "DELETE", "/organizations/acme/keys/admin");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(reason_of(refused), "LastAdminKey");
  EXPECT_EQ(status_of(admin()), 200);
  world_.make_key("acme", "second", "admin");
  std::vector<std::thread> both;  // two admins remove each other: one stays
  std::atomic<int> removed = 0;
  for (const char* name : {"admin", "second"})
    both.emplace_back(
        [&, name] { removed += world_.tenants.revoke_key(OrgId("acme"), name).has_value() ? 1 : 0; });
  for (auto& thread : both) thread.join();
  EXPECT_EQ(removed, 1);
}

// Metering, as far as it lists the Budgets of a project.
struct BudgetLists {
  BudgetLists() {
    server.route({.method = "GET", .pattern = "/v1/budgets", .name = "list", .handler = [this](const auto&) {
                    std::string items;
                    for (int i = 0; i < budgets; ++i)
                      items += std::string(i == 0 ? "" : ",") + R"({"metadata":{"name":"b)" +
                               std::to_string(i) + R"("}})";
                    return http::json(200, R"({"metadata":{"resourceVersion":"1"},"items":[)" + items + "]}");
                  }});
    EXPECT_TRUE(server.start().has_value());
  }
  std::atomic<int> budgets = 0;
  http::Server server{{.listen = "127.0.0.1:0"}};
};

TEST_F(TenantsTest, AProjectIsDeletedOnlyWhenNothingLivesInIt) {
  ASSERT_EQ(world_.call(admin(), "POST", "/organizations/acme/projects", object("Project", "lab")).status,
            201);
  EXPECT_EQ(world_.call(admin(), "POST", "/organizations/acme/projects", object("Project", "lab")).status,
            409);
  EXPECT_EQ(world_
                .call(world_.secret_of("rival/admin"), "POST", "/organizations/rival/projects",
                      object("Project", "lab"))
                .status,
            201)
      << "names of another organization are not known";
  const std::string bound = world_.make_key("acme", "bound", "developer", "lab");
  ASSERT_EQ(world_.create(admin(), "one", "lab").status, 201);
  const auto unknown = world_.call(admin(), "DELETE", "/organizations/acme/projects/lab");
  EXPECT_EQ(reason_of(unknown), "MeteringUnavailable") << "nobody says whether it has Budgets";
  BudgetLists metering;
  world_.api.options.metering_port = metering.server.port();
  const auto refused = world_.call(admin(), "DELETE", "/organizations/acme/projects/lab");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(reason_of(refused), "ProjectNotEmpty");
  EXPECT_EQ(world_.call(admin(), "GET", "/namespaces/lab/sandboxes/one").status, 200);
  auto sandbox = world_.catalog.sandbox(ProjectId("acme/lab"), "one");
  ASSERT_TRUE(sandbox.has_value());
  world_.call(admin(), "DELETE", "/namespaces/lab/sandboxes/one");
  ASSERT_TRUE(world_.batcher
                  .run(change_sandbox(sandbox->uid, RecordLapse{1, "Deleted", StopReason::kDelete},
                                      {world_.clock.now(), std::nullopt}))
                  .has_value());
  metering.budgets = 1;
  const auto limited = world_.call(admin(), "DELETE", "/organizations/acme/projects/lab");
  EXPECT_EQ(reason_of(limited), "ProjectNotEmpty");
  EXPECT_NE(limited.body.find("1 Budget"), std::string::npos) << limited.body;
  metering.budgets = 0;
  EXPECT_EQ(world_.call(admin(), "DELETE", "/organizations/acme/projects/lab").status, 200);
  EXPECT_EQ(world_.create(admin(), "two", "lab").status, 404);
  EXPECT_EQ(status_of(bound), 401) << "a key of a project that is gone";
}

TEST_F(TenantsTest, CreatesAndTheDeletionOfTheirProjectDoNotPassEachOther) {
  for (int round = 0; round < 10; ++round) {
    const std::string project = "p" + std::to_string(round);
    ASSERT_TRUE(world_.tenants.create_project(OrgId("acme"), project).has_value());
    std::atomic<int> created = 0;
    bool deleted = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        created += world_.create(admin(), "s" + std::to_string(i), project).status == 201 ? 1 : 0;
      });
    threads.emplace_back(
        [&] { deleted = world_.tenants.delete_project(OrgId("acme"), project).has_value(); });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(created > 0, !deleted) << "round " << round << ": " << created << " created";
  }
}

TEST_F(TenantsTest, SuspensionStopsWhatRunsAndResumingStartsNothing) {
  const std::string& user = world_.secret_of("acme/developer");
  ASSERT_EQ(world_.create(user, "one").status, 201);
  ASSERT_EQ(world_.create(user, "two").status, 201);
  ASSERT_TRUE(world_.tenants.suspend(OrgId("acme"), "unpaid").has_value());
  EXPECT_EQ(world_.keeper.stop_suspended().value_or(-1), 2);
  const auto phase = [&](const char* name) {
    return to_string(world_.catalog.sandbox(ProjectId("acme/web"), name)->phase);
  };
  EXPECT_EQ(phase("one"), "Stopping");
  EXPECT_EQ(world_.keeper.stop_suspended().value_or(-1), 0) << "asked for once";
  world_.clock.advance(Seconds(1));
  EXPECT_EQ(reason_of(world_.create(user, "three")), "OrganizationSuspended");
  EXPECT_EQ(world_.call(user, "GET", "/namespaces/web/sandboxes/one").status, 200);
  EXPECT_EQ(world_.call(user, "DELETE", "/namespaces/web/sandboxes/two").status, 202);
  // What was admitted just before the suspension does not slip through: it is judged where it is decided.
  const auto one = *world_.catalog.sandbox(ProjectId("acme/web"), "one");
  ASSERT_TRUE(world_.batcher
                  .run(change_sandbox(one.uid, RecordLapse{1, "Stopped", StopReason::kUser},
                                      {world_.clock.now(), std::nullopt}))
                  .has_value());
  EXPECT_EQ(phase("one"), "Stopped");
  EXPECT_EQ(world_.sandboxes.trigger(*world_.catalog.sandbox(one.uid), Trigger::kCommand).error().reason,
            "OrganizationSuspended");
  ASSERT_TRUE(world_.tenants.resume(OrgId("acme")).has_value());
  world_.clock.advance(Seconds(1));
  EXPECT_EQ(world_.keeper.stop_suspended().value_or(-1), 0);
  EXPECT_EQ(phase("one"), "Stopped");
  EXPECT_EQ(world_.create(user, "three").status, 201);
  EXPECT_EQ(world_.create(world_.secret_of("rival/developer"), "theirs").status, 201);
}

// Invariant 11. Two organizations with projects of the same names do random things, also to names that only
// the other has. Each must be answered exactly as if it were alone: a second world, where the rival never
// was, answers the same requests with the same bytes.
TEST(Invariant11, NoRequestOfOneTenantReadsChangesOrNamesAnothers) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    TenantWorld together;
    TenantWorld alone;
    together.make_organization("acme");
    together.make_organization("rival");
    alone.make_organization("acme");
    together.serve();
    alone.serve();
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return std::to_string(random() % static_cast<uint32_t>(n)); };
    const auto masked = [](const http::Response& response) {  // what differs by chance
      static const std::regex kChance(
          "[0-9a-f]{8}-[0-9a-f-]{27}|nodus_[A-Za-z0-9_-]+|\"resourceVersion\":\"[^\"]*\"");
      return std::to_string(response.status) + " " + std::regex_replace(response.body, kChance, "*");
    };
    for (int step = 0; step < 60; ++step) {
      const bool rival = random() % 2 == 0;
      const std::string org = rival ? "rival" : "acme";
      const std::string project = random() % 3 == 0 ? "lab" : "web";
      const std::string sandbox = "/namespaces/" + project + "/sandboxes/s" + pick(4);
      std::string method = "GET";
      std::string path = sandbox;
      std::string body;
      switch (random() % 8) {
        case 0:
        case 1:
          method = "POST", path = "/namespaces/" + project + "/sandboxes";
          body = object("Sandbox", "s" + pick(4), R"({"image":"nodus/busybox","state":"Stopped"})");
          break;
        case 2:
          method = "DELETE";
          break;
        case 3:
          path = "/namespaces/" + project + "/sandboxes";
          break;
        case 4:
          method = "POST", path = "/organizations/" + org + "/projects", body = object("Project", "lab");
          break;
        case 5:
          path = "/organizations/" + std::string(random() % 2 == 0 ? "rival" : org) + "/projects";
          break;
        case 6:
          method = "POST", path = "/organizations/" + org + "/keys";
          body = object("APIKey", "k" + pick(3), R"({"role":"viewer"})");
          break;
        default:
          path = "/namespaces/" + project + "/processes/sb-s" + pick(4) + "-1";
      }
      const auto answer = together.call(together.secret_of(org + "/admin"), method, path, body);
      if (rival) continue;
      const auto expected = alone.call(alone.secret_of("acme/admin"), method, path, body);
      ASSERT_EQ(masked(answer), masked(expected))
          << "seed " << seed << ", step " << step << ": " << method << " " << path;
    }
  }
}

}  // namespace
}  // namespace nodus::lifecycle
