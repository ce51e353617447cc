// GET /v1/bill as lifecycle forwards it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "libs/http/identity.hpp"
#include "services/metering/adapters/http/bill_route.hpp"
#include "services/metering/adapters/price_file.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

namespace json = boost::json;

constexpr const char* kSecret = "shared";

http::Response ask(World& world, std::multimap<std::string, std::string> query,
                   const std::string& project = "web", const std::string& secret = kSecret,
                   BillScope scope = BillScope::kProject) {
  const BillDeps deps{world.clock, world.pool, kSecret};
  http::Request request{.method = "GET", .query = std::move(query)};
  const http::Identity identity{OrgId("acme"), ProjectId(project), "k1", "developer"};
  request.headers.set("X-Nodus-Identity", http::sign_identity(identity, secret, world.clock.now()));
  return answer_bill(deps, request, scope);
}

TEST(Bill, IsJsonWithExactAmounts) {
  World world;
  world.credit("1.00", "g1");
  world.consume();
  world.scheduler.offer("u1", 1);
  world.scheduler.reserve("u1", 1, 10);
  world.scheduler.release("u1", 1, 10, 12, 30, 31);
  world.scheduler.offer("u1", 2);
  world.scheduler.reserve("u1", 2, 40);
  world.await_all();
  world.at(45);
  const auto answer = ask(world, {{"sandbox", "box-u1"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto bill = json::parse(answer.body).as_object();
  EXPECT_EQ(bill.at("kind"), "Bill");
  EXPECT_EQ(bill.at("total"), "0.000000000234");
  EXPECT_EQ(bill.at("balance"), "0.999999999766");
  const auto& lines = bill.at("lines").as_array();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(
      json::serialize(lines[1]),
      R"({"project":"web","sandbox":"box-u1","sandboxUid":"u1","start":1,"kind":"Running","from":"2027-01-15T08:00:12Z",)"
      R"("to":"2027-01-15T08:00:30Z","seconds":18,"rate":"0.000000000009","amount":"0.000000000162",)"
      R"("waived":false,"reason":"Charged"})");
  EXPECT_EQ(lines[3].at("open"), true);
  EXPECT_EQ(lines[3].at("seconds"), 5);
}

TEST(Bill, BelievesOnlyASignedIdentityAndItsProject) {
  World world;
  EXPECT_EQ(ask(world, {}, "web", "another").status, 401);
  EXPECT_EQ(ask(world, {}, "elsewhere").status, 200);
  const BillDeps deps{world.clock, world.pool, kSecret};
  EXPECT_EQ(answer_bill(deps, http::Request(), BillScope::kProject).status, 401);
}

TEST(Bill, TellsEveryFaultOfItsQuery) {
  World world;
  const auto answer = ask(world, {{"limit", "0"}, {"sandbox", ""}, {"color", "red"}});
  EXPECT_EQ(answer.status, 400);
  for (const auto* field : {"limit", "sandbox", "color"}) EXPECT_THAT(answer.body, testing::HasSubstr(field));
  EXPECT_EQ(ask(world, {{"limit", "1001"}}).status, 400);
  EXPECT_EQ(ask(world, {{"continue", "x"}}).status, 400);
  const std::vector<std::pair<std::string, std::multimap<std::string, std::string>>> faults{
      {"by", {{"by", "color"}}},
      {"from", {{"from", "yesterday"}}},
      {"from", {{"from", "2027-02-29"}}},
      {"from", {{"from", "2027-01-15T08:00:00+01:00"}}},
      {"to", {{"from", "2027-01-16"}, {"to", "2027-01-16"}}},
      {"month", {{"month", "2027-13"}}},
      {"month", {{"month", "2027-01"}, {"to", "2027-01-16"}}},
      {"sandbox", {{"sandbox", "a"}, {"sandbox", "b"}}},
      {"project", {{"project", "web"}}},
      {"limit", {{"limit", "1e3"}}},
      {"continue", {{"by", "day"}, {"continue", "project:acme/web"}}},
      {"continue", {{"by", "day"}, {"continue", "day:1; DROP TABLE bill_lines"}}},
      {"continue", {{"by", "line"}, {"continue", "line:1_2_x_u1"}}},
      {"continue", {{"by", "project"}, {"continue", std::string("project:a\0b", 11)}}}};
  for (const auto& [field, query] : faults) {
    const auto refused = ask(world, query);
    EXPECT_EQ(refused.status, 400) << refused.body;
    const auto causes = json::parse(refused.body).at("details").at("causes").as_array();
    ASSERT_EQ(causes.size(), 1u) << refused.body;
    EXPECT_EQ(causes[0].at("field").as_string(), field) << refused.body;
  }
}

TEST(PriceFile, TheExampleIsPublishedOnceAndIsImmutable) {
  World world;
  world.forget_prices();
  auto book = read_price_file(NODUS_SOURCE_DIR "/services/metering/prices.example.yaml");
  ASSERT_TRUE(book) << book.error().message;
  const auto now = world.clock.now();
  EXPECT_EQ(publish_prices(world.pool, *book, now, std::chrono::minutes(5))->size(), 1u);
  EXPECT_TRUE(publish_prices(world.pool, *book, now, std::chrono::minutes(5))->empty());
  book->front().cpu_per_vcpu_s += Money::from_pico(1);
  EXPECT_EQ(publish_prices(world.pool, *book, now, std::chrono::minutes(5)).error().reason,
            "PriceVersionPublished");
}

}  // namespace
}  // namespace nodus::metering::test
