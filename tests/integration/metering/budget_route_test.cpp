// /v1/budgets as lifecycle forwards it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "libs/http/identity.hpp"
#include "services/metering/adapters/http/budget_route.hpp"
#include "services/metering/adapters/postgres/budget_changes.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

constexpr const char* kSecret = "shared";

struct Ask {
  std::string method = "GET";
  std::string name = "";
  std::string body = "";
  std::string key = "";
  std::string query = "";
  std::string project = "web";
  std::string version = "";  // preconditions of a DELETE
  std::string uid = "";
};

http::Response ask(World& world, const Ask& what) {
  http::Waiters waiters;
  const BudgetDeps deps{world.clock, world.pool, *world.log, world.works, kSecret, waiters};
  http::Request request{.method = what.method, .body = what.body};
  if (!what.name.empty()) request.params["name"] = what.name;
  if (!what.query.empty()) request.query.emplace("dryRun", what.query);
  if (!what.version.empty()) request.query.emplace("resourceVersion", what.version);
  if (!what.uid.empty()) request.query.emplace("uid", what.uid);
  if (!what.key.empty()) request.headers.set("Idempotency-Key", what.key);
  if (what.method == "PATCH") request.headers.set("Content-Type", "application/merge-patch+json");
  const http::Identity identity{OrgId("acme"), ProjectId(what.project), "k1", "billing"};
  request.headers.set("X-Nodus-Identity", http::sign_identity(identity, kSecret, world.clock.now()));
  return answer_budgets(deps, request);
}

std::string manifest(const std::string& spec, const std::string& name = "team") {
  return R"({"apiVersion":"nodus.dev/v1","kind":"Budget","metadata":{"name":")" + name + R"("},"spec":)" +
         spec + "}";
}

TEST(BudgetRoute, MakesReadsChangesAndDeletes) {
  World world;
  world.credit("1.00", "g1");
  const auto body =
      manifest(R"({"limitUSD":"0.000000000900","period":"Total","thresholdsPercent":[100,50,50]})");
  EXPECT_EQ(ask(world, {.method = "POST", .body = body}).status, 201);
  EXPECT_EQ(ask(world, {.method = "POST", .body = body}).status, 200);  // the same: nothing to do
  world.consume();
  world.scheduler.offer("u1", 1);
  world.scheduler.reserve("u1", 1, 10);
  world.await_all();
  world.at(30);
  const auto got = json::parse(ask(world, {.name = "team"}).body);
  EXPECT_EQ(json::serialize(got.at("spec")),
            R"({"limitUSD":"0.0000000009","period":"Total","thresholdsPercent":[50,100]})");
  EXPECT_EQ(got.at("status").at("spentUSD"), "0.000000000180");
  EXPECT_EQ(got.at("status").at("heldUSD"), "0.000000000675");
  EXPECT_EQ(got.at("status").at("remainingUSD"), "0.000000000720");
  EXPECT_EQ(got.at("status").at("conditions").as_array()[0].at("status"), "False");
  const auto list = json::parse(ask(world, {}).body);
  EXPECT_EQ(list.at("items").as_array().size(), 1u);

  const auto patched =
      ask(world, {.method = "PATCH", .name = "team", .body = R"({"spec":{"limitUSD":"0.0000000001"}})"});
  ASSERT_EQ(patched.status, 200) << patched.body;
  EXPECT_THAT(patched.body, HasSubstr("exhaustedAt"));
  world.run_deadlines();
  EXPECT_THAT(world.events("charge/u1"), testing::Contains("StopOrdered"));

  const auto raised = manifest(R"({"limitUSD":"5.00","period":"Monthly"})");
  EXPECT_EQ(ask(world, {.method = "POST", .body = raised}).status, 409);
  const auto put = ask(world, {.method = "PUT", .name = "team", .body = raised});
  ASSERT_EQ(put.status, 200) << put.body;
  EXPECT_THAT(put.body, HasSubstr(R"("resetsAt":"2027-02-01T00:00:00Z")"));
  EXPECT_EQ(
      ask(world, {.method = "PUT", .name = "other", .body = manifest(R"({"limitUSD":"5.00"})", "other")})
          .status,
      404);
  EXPECT_EQ(ask(world, {.method = "DELETE", .name = "team"}).status, 200);
  EXPECT_EQ(ask(world, {.method = "DELETE", .name = "team"}).status, 404);
  EXPECT_EQ(ask(world, {.name = "team"}).status, 404);
  EXPECT_TRUE(world.audited());
}

TEST(BudgetRoute, BadAmountsAndFieldsChangeNothing) {
  World world;
  for (const std::string spec :
       {R"({})", R"({"limitUSD":100})", R"({"limitUSD":1.5})", R"({"limitUSD":"1e3"})",
        R"({"limitUSD":"NaN"})", R"({"limitUSD":"-1.00"})", R"({"limitUSD":"1.0000000000001"})",
        R"({"limitUSD":"+1.00"})", R"({"limitUSD":""})", R"({"limitUSD":"99999999999999999999.00"})",
        R"({"limitUSD":null})", R"({"limitUSD":"1.00","period":"Weekly"})",
        R"({"limitUSD":"1.00","thresholdsPercent":[0]})", R"({"limitUSD":"1.00","thresholdsPercent":[101]})",
        R"({"limitUSD":"1.00","thresholdsPercent":[50.5]})",
        R"({"limitUSD":"1.00","thresholdsPercent":"50"})", R"({"limitUSD":"1.00","color":"red"})",
        R"("x")"}) {
    const auto answer = ask(world, {.method = "POST", .body = manifest(spec)});
    EXPECT_EQ(answer.status, 422) << spec << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("\"field\":\"spec")) << answer.body;
  }
  EXPECT_EQ(ask(world, {.method = "POST", .body = manifest(R"({"limitUSD":"1.00"})", "No_Such")}).status,
            422);
  EXPECT_EQ(ask(world, {.method = "POST", .body = "{"}).status, 400);
  EXPECT_EQ(ask(world, {.method = "POST", .body = "[]"}).status, 400);
  EXPECT_EQ(world.count("SELECT count(*) FROM events"), 0);
}

TEST(BudgetRoute, KeysPreconditionsAndDryRuns) {
  World world;
  const auto body = manifest(R"({"limitUSD":"1.00"})");
  EXPECT_EQ(ask(world, {.method = "POST", .body = body, .query = "All"}).status, 201);
  EXPECT_EQ(ask(world, {.name = "team"}).status, 404);
  EXPECT_EQ(ask(world, {.method = "POST", .body = body, .key = "a"}).status, 201);
  EXPECT_EQ(ask(world, {.method = "POST", .body = body, .key = "a"}).status, 201);  // the stored answer
  EXPECT_EQ(ask(world, {.method = "POST", .body = manifest(R"({"limitUSD":"2.00"})"), .key = "a"}).status,
            409);
  EXPECT_EQ(ask(world, {.name = "team", .project = "api"}).status, 404);
  auto object = json::parse(ask(world, {.name = "team"}).body);
  object.at("spec").at("limitUSD") = "3.00";
  EXPECT_EQ(ask(world, {.method = "PUT", .name = "team", .body = json::serialize(object)}).status, 200);
  object.at("spec").at("limitUSD") = "4.00";  // of the generation before
  EXPECT_EQ(ask(world, {.method = "PUT", .name = "team", .body = json::serialize(object)}).status, 409);
  EXPECT_EQ(ask(world, {.method = "DELETE", .name = "team", .query = "All"}).status, 200);
  EXPECT_EQ(ask(world, {.method = "DELETE", .name = "team", .version = "7777"}).status, 409);
  EXPECT_EQ(ask(world, {.method = "DELETE", .name = "team", .uid = "another"}).status, 409);
  EXPECT_EQ(ask(world, {.name = "team"}).status, 200);
  EXPECT_EQ(ask(world, {.method = "POST", .body = R"({"kind":"Budget","kind":"Budget"})"}).status, 400);
  EXPECT_EQ(ask(world, {.method = "PATCH", .name = "team", .body = R"({"spec":{"limitUSD":null}})"}).status,
            422);
  EXPECT_EQ(ask(world, {.method = "PATCH", .name = "team", .body = R"({"metadata":{"name":"x"}})"}).status,
            422);
}

BudgetChanges changes(World& world, int64_t after, int limit = 500) {
  auto found =
      world.pool.with_tx([&](pg::Tx& tx) { return read_budget_changes(tx, ProjectId("web"), after, limit); });
  EXPECT_TRUE(found.has_value()) << found.error().message;
  return found.value_or(BudgetChanges{});
}

std::vector<std::string> types(const BudgetChanges& found) {
  std::vector<std::string> out;
  for (const auto& change : found.changes) out.push_back(change.type);
  return out;
}

TEST(BudgetRoute, EachVisibleChangeIsToldOnceInOrderAndForAnHour) {
  World world;
  world.credit("1.00", "g1");
  const auto list_version = [&] {
    return std::stoll(
        std::string(json::parse(ask(world, {}).body).at("metadata").at("resourceVersion").as_string()));
  };
  EXPECT_EQ(list_version(), 1);
  ask(world, {.method = "POST", .body = manifest(R"({"limitUSD":"0.0000000009","period":"Total"})")});
  const auto made = changes(world, 1);
  ASSERT_EQ(types(made), std::vector<std::string>{"ADDED"});
  EXPECT_EQ(list_version(), made.last);
  world.consume();
  world.scheduler.offer("u1", 1);
  world.scheduler.reserve("u1", 1, 10);  // 9 pico-dollars a second: full after 100 s
  world.await_all();
  EXPECT_EQ(list_version(), made.last) << "what is spent is no change";
  for (const double at : {59.0, 89.0, 109.0, 115.0}) {
    world.at(at);
    world.run_deadlines();
  }
  const auto told = changes(world, made.last);
  EXPECT_EQ(types(told), (std::vector<std::string>{"MODIFIED", "MODIFIED", "MODIFIED"}));
  EXPECT_THAT(told.changes[0].object, HasSubstr(R"("thresholdReachedPercent":50)"));
  EXPECT_THAT(told.changes[1].object, HasSubstr(R"("thresholdReachedPercent":80)"));
  EXPECT_THAT(told.changes[2].object, HasSubstr("exhaustedAt"));
  const auto now = json::parse(ask(world, {.name = "team"}).body);
  EXPECT_EQ(now.at("metadata").at("resourceVersion").as_string(), std::to_string(told.last));
  EXPECT_EQ(types(changes(world, made.last, 2)).size(), 2u);
  EXPECT_TRUE(changes(world, made.last, 2).more);

  world.at(5000);  // more than an hour later
  ask(world, {.method = "DELETE", .name = "team"});
  ask(world, {.method = "POST", .body = manifest(R"({"limitUSD":"5.00"})")});
  const auto late = changes(world, told.last);
  EXPECT_EQ(types(late), (std::vector<std::string>{"DELETED", "ADDED"}));
  EXPECT_EQ(late.floor, told.last) << "what is older is not kept";
  EXPECT_EQ(changes(world, late.last).changes.size(), 0u);
  EXPECT_EQ(changes(world, late.last).last, late.last);
}

}  // namespace
}  // namespace nodus::metering::test
