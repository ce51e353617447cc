// Every public route, as every kind of caller: generated from the route table. Handlers are stubs that say
// whom they were called for, so only the dispatcher answers here. A route without a row of expectations
// fails.
#include <gtest/gtest.h>

#include <regex>

#include "tests/integration/lifecycle/tenant_world.hpp"
#include "tests/unit/http/raw.hpp"

namespace nodus::lifecycle {
namespace {

using boost::asio::awaitable;

constexpr std::string_view kReader = "vdba";  // viewer, developer, billing, admin
constexpr std::string_view kUser = "da";
constexpr std::string_view kBiller = "ba";
constexpr std::string_view kAdmin = "a";

struct Expected {
  std::string_view roles;        // "": everybody, without a key
  bool while_suspended = false;  // goes on
};

const std::map<std::string, Expected>& expectations() {
  static const std::map<std::string, Expected> table{
      {"sandboxes.list", {kReader, true}},
      {"sandboxes.create", {kUser, false}},
      {"sandboxes.get", {kReader, true}},
      {"sandboxes.patch", {kUser, false}},
      {"sandboxes.replace", {kUser, false}},
      {"version.get", {}},
      {"discovery.core", {}},
      {"discovery.core.resources", {}},
      {"discovery.groups", {}},
      {"discovery.group", {}},
      {"discovery.resources", {}},
      {"openapi.index", {}},
      {"openapi.group", {}},
      {"openapi.core", {}},
      {"sandboxes.list.all", {kReader, true}},
      {"processes.list.all", {kReader, true}},
      {"events.list.all", {kReader, true}},
      {"budgets.list.all", {kReader, true}},
      {"sandboxes.delete", {kUser, true}},
      {"events.list", {kReader, true}},
      {"events.list.core", {kReader, true}},
      {"events.get", {kReader, true}},
      {"events.get.core", {kReader, true}},
      {"processes.list", {kReader, true}},
      {"processes.get", {kReader, true}},
      {"sandboxes.exec", {kUser, false}},
      {"sandboxes.exec.stream", {kUser, false}},
      {"processes.delete", {kUser, true}},
      {"processes.cancel", {kUser, true}},
      {"processes.signal", {kUser, false}},
      {"processes.attach", {kUser, false}},
      {"processes.log", {kUser, true}},
      {"sandboxes.files.get", {kUser, false}},
      {"sandboxes.files.put", {kUser, false}},
      {"sandboxes.files.delete", {kUser, false}},
      {"bill.get", {kBiller, true}},
      {"budgets.list", {kReader, true}},
      {"budgets.get", {kReader, true}},
      {"budgets.create", {kBiller, false}},
      {"budgets.replace", {kBiller, false}},
      {"budgets.patch", {kBiller, false}},
      {"budgets.delete", {kBiller, true}},
      {"organizations.bill", {kBiller, true}},
      {"prices.list", {kReader, true}},
      {"quotes.get", {kReader, true}},
      {"organizations.balance", {kBiller, true}},
      {"organizations.credits", {kBiller, true}},
      {"webhooks.stripe", {}},
      {"organizations.export", {kBiller, true}},
      {"invoices.list", {kBiller, true}},
      {"invoices.get", {kBiller, true}},
      {"organizations.list", {kReader, true}},
      {"organizations.get", {kReader, true}},
      {"projects.list", {kReader, true}},
      {"projects.create", {kAdmin, false}},
      {"projects.get", {kReader, true}},
      {"projects.delete", {kAdmin, true}},
      {"keys.list", {kAdmin, true}},
      {"keys.create", {kAdmin, false}},
      {"keys.get", {kAdmin, true}},
      {"keys.delete", {kAdmin, true}},
      {"keys.rotate", {kAdmin, true}},
      {"auditevents.list", {kAdmin, true}},
  };
  return table;
}

std::string whom(const http::Identity& caller) {
  return "reached by " + caller.org.str() + " for " + caller.project.str();
}

Result<http::Response> reached(Api&, const http::Identity& caller, const http::Request&) {
  return http::json(200, whom(caller));
}

awaitable<void> reached_stream(Api&, const http::Identity& caller, http::Exchange& exchange) {
  co_await exchange.respond(http::json(200, whom(caller)));
}

std::vector<PublicRoute> stubbed(std::vector<PublicRoute> table) {
  for (auto& row : table) {
    if (row.plain != nullptr) row.plain = reached;
    if (row.stream != nullptr) row.stream = reached_stream;
  }
  return table;
}

class Routes : public ::testing::Test {
 protected:
  Routes() : table_(public_routes()) {
    for (const char* org : {"acme", "rival", "closed"}) world_.make_organization(org);
    EXPECT_TRUE(world_.tenants.create_project(OrgId("acme"), "only-acme").has_value());
    EXPECT_TRUE(world_.tenants.suspend(OrgId("closed"), "unpaid").has_value());
    world_.serve(stubbed(public_routes()));
  }

  // The path of a row; other parameters are "thing".
  static std::string path_of(const PublicRoute& row, const std::string& project, const std::string& org) {
    std::string path = std::regex_replace(row.pattern, std::regex("\\{project\\}"), project);
    path = std::regex_replace(path, std::regex("\\{org\\}"), org);
    path = std::regex_replace(path, std::regex("\\{[^}]*\\}"), "thing");
    return path;
  }
  http::Response ask(const PublicRoute& row, const std::string& secret, const std::string& project = "web",
                     const std::string& org = "acme") {
    return world_.call(secret, row.method, path_of(row, project, org));
  }
  // Rows that a key is needed for.
  std::vector<PublicRoute> guarded() const {
    std::vector<PublicRoute> out;
    for (const auto& row : table_)
      if (row.right != Right::kNobody) out.push_back(row);
    return out;
  }
  static bool names(const PublicRoute& row, const char* parameter) { return row.pattern.contains(parameter); }

  TenantWorld world_;
  std::vector<PublicRoute> table_;
};

TEST_F(Routes, EachHasItsExpectationsAndNoneIsWithoutARoute) {
  std::set<std::string> seen;
  for (const auto& row : table_) {
    const auto found = expectations().find(row.name);
    ASSERT_NE(found, expectations().end())
        << row.name << ": say in this file who may call it, also while suspended";
    EXPECT_EQ(found->second.roles.empty(), row.right == Right::kNobody) << row.name;
    seen.insert(row.name);
    EXPECT_NE(row.plain == nullptr, row.stream == nullptr) << row.name;
    EXPECT_TRUE(row.stream != nullptr || row.method == "GET" || row.method == "DELETE" || row.body_bytes > 0)
        << row.name << " would not read its body";
    EXPECT_EQ(row.method == "DELETE" || row.effect != Effect::kRemoves || row.name == "keys.rotate" ||
                  row.name.ends_with(".cancel"),
              true)
        << row.name;
  }
  for (const auto& [name, _] : expectations())
    EXPECT_TRUE(seen.contains(name)) << name << ": there is no such route";
}

TEST_F(Routes, NobodyEntersWithoutAKeyThatIsInForce) {
  const Instant later = world_.clock.now() + Seconds(60);
  const std::string expired = world_.make_key("acme", "expired", "admin", "", later);
  const std::string revoked = world_.make_key("acme", "revoked", "admin");
  const std::string rotated = world_.make_key("acme", "rotated", "admin");
  const PublicRoute first = guarded().front();
  for (const auto& secret : {expired, revoked, rotated}) EXPECT_EQ(ask(first, secret).status, 200);
  EXPECT_EQ(ask(first, "bEARER " + expired).status, 200);  // a scheme has no case
  ASSERT_TRUE(world_.tenants.revoke_key(OrgId("acme"), "revoked").has_value());
  ASSERT_TRUE(world_.tenants.rotate_key(OrgId("acme"), "rotated", Micros(0)).has_value());
  world_.clock.advance(Seconds(60));
  const std::vector<std::string> strangers{"",
                                           "Bearer ",
                                           "Basic nodus_x",
                                           "Bearer nodus_x",
                                           "nodus_" + std::string(43, 'A'),
                                           "Bearer \t",
                                           "bearer " + expired,
                                           "Bearer " + expired + " ",
                                           expired,
                                           revoked,
                                           rotated,
                                           "Bearer " + std::string(5'000, 'x')};
  const std::string wanted = ask(first, "").body;
  for (const auto& row : guarded())
    for (const auto& secret : strangers) {
      const auto response = ask(row, secret);
      EXPECT_EQ(response.status, 401) << row.name << " with " << secret.substr(0, 40);
      EXPECT_EQ(response.body, wanted) << row.name << " with " << secret.substr(0, 40);
      EXPECT_EQ(response.headers.get("WWW-Authenticate"), "Bearer");
    }
}

TEST_F(Routes, EachRoleReachesWhatItMay) {
  for (const auto& row : guarded())
    for (const char* role : {"viewer", "developer", "billing", "admin"}) {
      const bool may = expectations().at(row.name).roles.contains(role[0]);
      const auto response = ask(row, world_.secret_of(std::string("acme/") + role));
      EXPECT_EQ(response.status, may ? 200 : 403) << row.name << " as " << role << ": " << response.body;
      if (may) EXPECT_TRUE(response.body.starts_with("reached by acme")) << response.body;
      if (!may) EXPECT_EQ(reason_of(response), "Forbidden");
    }
}

TEST_F(Routes, AnothersProjectOrOrganizationIsAsOneThatDoesNotExist) {
  for (const auto& row : guarded()) {
    const bool project = names(row, "{project}");
    if (!project && !names(row, "{org}")) continue;
    for (const char* role : {"viewer", "admin"}) {  // also before the role is judged
      const std::string& rival = world_.secret_of(std::string("rival/") + role);
      const auto others = project ? ask(row, rival, "only-acme") : ask(row, rival, "web", "acme");
      const auto nones = project ? ask(row, rival, "only-none") : ask(row, rival, "web", "none");
      EXPECT_EQ(others.status, 404) << row.name;
      EXPECT_EQ(reason_of(others), "NotFound");
      EXPECT_EQ(std::regex_replace(others.body, std::regex("acme"), "none"), nones.body) << row.name;
      EXPECT_EQ(others.headers.all().size(), nones.headers.all().size());
    }
  }
}

TEST_F(Routes, ProjectsOfOneNameAreApart) {
  for (const auto& row : guarded()) {
    if (!names(row, "{project}")) continue;
    const auto response = ask(row, world_.secret_of("rival/admin"), "web");
    EXPECT_EQ(response.body, "reached by rival for rival/web") << row.name;
  }
}

TEST_F(Routes, AKeyOfOneProjectReachesNothingElse) {
  const std::string bound = world_.make_key("acme", "bound", "admin", "only-acme");
  for (const auto& row : guarded()) {
    if (names(row, "{project}")) {
      EXPECT_EQ(ask(row, bound, "only-acme").status, 200) << row.name;
      EXPECT_EQ(std::regex_replace(ask(row, bound, "web").body, std::regex("web"), "none"),
                ask(row, bound, "none").body)
          << row.name;
    } else if (names(row, "{org}")) {
      EXPECT_EQ(ask(row, bound).status, 403) << row.name;
    }
  }
}

TEST_F(Routes, ASuspendedOrganizationReadsAndDeletesOnly) {
  for (const auto& row : guarded()) {
    const auto response = ask(row, world_.secret_of("closed/admin"), "web", "closed");
    const bool goes_on = expectations().at(row.name).while_suspended;
    EXPECT_EQ(response.status, goes_on ? 200 : 403) << row.name << ": " << response.body;
    if (!goes_on) EXPECT_EQ(reason_of(response), "OrganizationSuspended") << row.name;
  }
}

TEST_F(Routes, ABodyOfAStrangerIsNotTakenIn) {
  for (const auto& row : guarded()) {
    if (row.method == "GET" || row.method == "DELETE") continue;
    for (const std::string& authorization :
         {std::string(), "Authorization: Bearer " + world_.secret_of("acme/viewer") + "\r\n"}) {
      http::Raw client(world_.port());
      client.send(row.method + " " + path_of(row, "web", "acme") + " HTTP/1.1\r\nHost: h\r\n" +
                  authorization + "Content-Length: 1048576\r\nExpect: 100-continue\r\n\r\n");
      EXPECT_EQ(client.read_answer().status, authorization.empty() ? 401 : 403) << row.name;
    }
  }
}

TEST_F(Routes, ChangesAndRefusalsAreInTheAuditLog) {
  for (const auto& row : guarded()) {
    const auto before = world_.number("SELECT count(*) FROM audit WHERE org = 'acme'");
    ask(row, world_.secret_of("acme/admin"));
    const bool refused = ask(row, world_.secret_of("acme/viewer")).status == 403;
    ask(row, "");
    ASSERT_TRUE(world_.audit.flush().has_value());
    const int64_t changes = row.effect == Effect::kReads ? 0 : 1 + (row.lasting ? 1 : 0);
    EXPECT_EQ(world_.number("SELECT count(*) FROM audit WHERE org = 'acme'") - before,
              changes + (refused ? 1 : 0))
        << row.name;
  }
  EXPECT_EQ(world_.number("SELECT count(*) FROM audit WHERE peer <> '127.0.0.1'"), 0);
}

}  // namespace
}  // namespace nodus::lifecycle
