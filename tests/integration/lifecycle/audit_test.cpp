// The audit log: complete, append-only, and never lost in silence.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "libs/base/random.hpp"
#include "tests/integration/lifecycle/tenant_world.hpp"

namespace nodus::lifecycle {
namespace {

class AuditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* org : {"acme", "rival"}) world_.make_organization(org);
    world_.serve();
  }
  const std::string& admin() const { return world_.secret_of("acme/admin"); }

  TenantWorld world_;
};

TEST_F(AuditTest, TheAuditLogSaysWhoDidWhatAndIsReadByItsOwnersOnly) {
  world_.create(world_.secret_of("acme/developer"), "one");
  world_.call(world_.secret_of("acme/viewer"), "DELETE", "/namespaces/web/sandboxes/one");
  world_.call(world_.secret_of("rival/admin"), "GET", "/organizations/acme/keys");
  world_.call(admin(), "POST", "/organizations/acme/projects", R"({"metadata":{"name":"lab"}})");
  ASSERT_TRUE(world_.audit.flush().has_value());
  const auto all = world_.call(admin(), "GET", "/organizations/acme/auditevents");
  ASSERT_EQ(all.status, 200);
  const auto items = boost::json::parse(all.body).at("items").as_array();
  ASSERT_EQ(items.size(), 3U) << all.body;
  std::set<std::string> seen;
  for (const auto& item : items)
    seen.insert(std::string(item.at("key").at("name").as_string()) + " " +
                std::string(item.at("route").as_string()) + " " + std::string(item.at("object").as_string()) +
                " " + std::to_string(item.at("code").as_int64()) + " " +
                std::string(item.at("project").as_string()) + " " +
                std::string(item.at("sourceAddress").as_string()));
  EXPECT_EQ(seen, (std::set<std::string>{"developer sandboxes.create one 201 web 127.0.0.1",
                                         "viewer sandboxes.delete one 403 web 127.0.0.1",
                                         "admin projects.create lab 201  127.0.0.1"}));
  const auto theirs = world_.call(world_.secret_of("rival/admin"), "GET", "/organizations/rival/auditevents");
  EXPECT_EQ(boost::json::parse(theirs.body).at("items").as_array().size(), 1U);
  // Pages.
  std::set<std::string> names;
  std::string next;
  for (int page = 0; page < 3; ++page) {
    const auto part =
        world_.call(admin(), "GET",
                    "/organizations/acme/auditevents?limit=1" + (next.empty() ? "" : "&continue=" + next));
    names.insert(string_at(part, "/items/0/metadata/name"));
    next = string_at(part, "/metadata/continue");
  }
  EXPECT_EQ(names.size(), 3U);
  EXPECT_EQ(world_.call(admin(), "GET", "/organizations/acme/auditevents?continue=x").status, 400);
  const auto filtered = world_.call(admin(), "GET", "/organizations/acme/auditevents?key=viewer");
  EXPECT_EQ(boost::json::parse(filtered.body).at("items").as_array().size(), 1U);
  // Rows are never changed.
  for (const char* statement : {"UPDATE audit SET status = 0", "DELETE FROM audit", "TRUNCATE audit"})
    EXPECT_FALSE(world_.pool.with_tx([&](pg::Tx& tx) -> Result<void> {
      tx.exec0(statement);
      return {};
    })) << statement;
}

TEST_F(AuditTest, TheAuditLogOutlivesItsProcessAndADatabaseThatIsAway) {
  const auto spool = std::filesystem::temp_directory_path() / ("audit-" + random_uuid());
  const auto record = [&](int i) {
    return AuditRecord{
        .at = world_.clock.now(), .id = random_uuid(), .org = "acme", .object = std::to_string(i)};
  };
  {
    pg::Pool away({.url = "host=/nonexistent", .schema = "lifecycle", .application_name = "test"}, 1);
    AuditLog log(away, {.spool = spool, .capacity = 10});
    ASSERT_TRUE(log.start().has_value());
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(log.room());
      log.add(record(i));
    }
    EXPECT_FALSE(log.room()) << "full: changes are refused";
    AuditLog second(away, {.spool = spool});
    EXPECT_EQ(second.start().error().reason, "AuditSpoolUnavailable") << "one process has the file";
  }
  AuditLog next(world_.pool, {.spool = spool});
  ASSERT_TRUE(next.start().has_value());
  ASSERT_TRUE(next.flush().has_value());
  EXPECT_EQ(world_.number("SELECT count(*) FROM audit WHERE org = 'acme'"), 10);
  EXPECT_EQ(std::filesystem::file_size(spool), 0U);
  std::filesystem::remove(spool);
}

TEST(Audit, ChangesAreRefusedWhenTheyCouldNotBeWrittenDown) {
  TenantWorld world({.audit = {.capacity = 1}});
  world.make_organization("acme");
  world.serve();
  EXPECT_EQ(world.create(world.secret_of("acme/developer"), "one").status, 201);
  const auto refused = world.create(world.secret_of("acme/developer"), "two");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(reason_of(refused), "AuditUnavailable");
  EXPECT_EQ(world.call(world.secret_of("acme/viewer"), "GET", "/namespaces/web/sandboxes/one").status, 200);
  ASSERT_TRUE(world.audit.flush().has_value());
  EXPECT_EQ(world.create(world.secret_of("acme/developer"), "two").status, 201);
}

}  // namespace
}  // namespace nodus::lifecycle
