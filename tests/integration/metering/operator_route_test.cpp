// /operator/v1/…: what an operator does, over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "services/metering/adapters/http/operator_routes.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

constexpr const char* kToken = "an operator's token of 32 characters";

struct Ask {
  std::string method = "GET";
  std::string path = "prices";  // or credits, brake
  std::string body = "";
  std::string token = kToken;
  std::string org = "acme";
  std::string query = "";
};

struct OperatorRoute : testing::Test {
  World world;
  MoneyDeps money{world.clock, world.pool, *world.log, world.works, {}, "identity", ""};
  std::string configured = kToken;

  http::Response ask(const Ask& what) {
    const OperatorDeps deps{money, Seconds(300), configured};
    http::Request request{
        .method = what.method, .segments = {"operator", "v1", what.path}, .body = what.body};
    if (what.path == "credits") request.params["org"] = what.org;
    if (!what.query.empty()) request.query.emplace(what.query, "x");
    if (!what.token.empty()) request.headers.set("Authorization", "Bearer " + what.token);
    return answer_operator(deps, request);
  }
  int64_t rows(const char* table) {
    return world.pool
        .with_tx([&](pg::Tx& tx) -> Result<int64_t> {
          return tx.exec1(std::string("SELECT count(*) FROM ") + table)[0].as<int64_t>();
        })
        .value();
  }
  std::string book(const std::string& version, Micros ahead, const std::string& cpu = "0.000004") {
    return "versions: [\"" + version + "\"]\nprices:\n  \"" + version + "\":\n    effectiveAt: \"" +
           to_rfc3339(std::chrono::floor<Seconds>(world.clock.now() + ahead)) +
           "\"\n    cpuPerVcpuSecond: \"" + cpu +
           "\"\n    memoryPerGibSecond: \"0.0000005\"\n    diskPerGibSecond: \"0.00000001\"\n";
  }
};

const std::string kGrant = R"({"kind":"Grant","id":"spring","amount":"25.00","author":"ann","priority":3})";

TEST_F(OperatorRoute, NeedsItsTokenAndIsOffWithoutOne) {
  const auto before = rows("prices");
  for (const char* path : {"prices", "credits", "brake"})
    for (const char* method : {"GET", "POST", "PUT"})
      for (const std::string& token : {std::string(), std::string("another"), std::string(kToken) + "x"}) {
        const auto refused = ask({.method = method, .path = path, .body = kGrant, .token = token});
        EXPECT_EQ(refused.status, 401) << method << " " << path << " " << token;
      }
  configured.clear();
  for (const std::string& token : {std::string(), std::string(kToken)}) {
    const auto off = ask({.method = "POST", .body = book("later", std::chrono::hours(1)), .token = token});
    EXPECT_EQ(off.status, 503);
    EXPECT_THAT(off.body, HasSubstr("OperatorApiNotConfigured"));
  }
  EXPECT_EQ(rows("prices"), before);
  EXPECT_EQ(rows("credits"), 0);
  EXPECT_EQ(rows("brake_changes"), 0);
}

TEST_F(OperatorRoute, PublishesPricesAheadAndListsThem) {
  const auto body = book("later", std::chrono::hours(1));
  const auto made = ask({.method = "POST", .body = body});
  EXPECT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(json::parse(made.body), json::parse(R"({"published":["later"]})"));
  EXPECT_EQ(ask({.method = "POST", .body = body}).status, 200);  // published before: nothing new
  const auto listed = json::parse(ask({}).body).at("items").as_array();
  EXPECT_EQ(listed.back().at("version"), "later");
  EXPECT_EQ(listed.back().at("state"), "Ahead");
  EXPECT_EQ(listed.front().at("state"), "InForce");
  EXPECT_EQ(listed.back().at("cpuPerVcpuSecond"), "0.000004000000");
}

TEST_F(OperatorRoute, RefusesWhatIsWrongWithPricesAndPublishesNothing) {
  const auto before = rows("prices");
  const auto soon = ask({.method = "POST", .body = book("soon", Seconds(10))});
  EXPECT_EQ(soon.status, 422);
  EXPECT_THAT(soon.body, HasSubstr("PriceTooSoon"));
  for (const std::string& cpu : {"1e-6", "-0.1", "NaN", "0.0000000000001", "2"}) {
    const auto refused = ask({.method = "POST", .body = book("bad", std::chrono::hours(1), cpu)});
    EXPECT_EQ(refused.status, 422) << cpu << refused.body;
    EXPECT_THAT(refused.body, HasSubstr("prices.bad.cpuPerVcpuSecond")) << cpu;
  }
  for (const std::string& body : {"", "versions: [a", "{}", "- 1", "versions: [a]\nother: 1\n"})
    EXPECT_EQ(ask({.method = "POST", .body = body}).status / 100, 4) << body;
  EXPECT_EQ(ask({.method = "POST", .body = book("later", std::chrono::hours(1))}).status, 201);
  const auto other = ask({.method = "POST", .body = book("later", std::chrono::hours(2))});
  EXPECT_EQ(other.status, 409);
  EXPECT_THAT(other.body, HasSubstr("PriceVersionPublished"));
  EXPECT_EQ(rows("prices"), before + 1);
}

TEST_F(OperatorRoute, PostsACreditOncePerId) {
  const auto posted = ask({.method = "POST", .path = "credits", .body = kGrant});
  EXPECT_EQ(posted.status, 201) << posted.body;
  EXPECT_EQ(json::parse(posted.body).at("amount"), "25.000000000000");
  EXPECT_EQ(ask({.method = "POST", .path = "credits", .body = kGrant}).status, 200);
  const auto other = ask({.method = "POST",
                          .path = "credits",
                          .body = R"({"kind":"Grant","id":"spring","amount":"26.00","author":"ann"})"});
  EXPECT_EQ(other.status, 409);
  EXPECT_THAT(other.body, HasSubstr("CreditIdReused"));
  const auto listed = json::parse(ask({.path = "credits"}).body).at("items").as_array();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].at("author"), "ann");
  EXPECT_EQ(listed[0].at("priority"), 3);
  EXPECT_TRUE(json::parse(ask({.path = "credits", .org = "other"}).body).at("items").as_array().empty());
}

TEST_F(OperatorRoute, RefusesAFaultyCreditWithEveryFaultNamed) {
  const auto faults = ask({.method = "POST",
                           .path = "credits",
                           .body = R"({"kind":1,"id":"x","amount":25.5,"priority":"3","until":"never"})"});
  EXPECT_EQ(faults.status, 422);
  for (const char* field : {"kind", "amount", "priority", "until"})
    EXPECT_THAT(faults.body, HasSubstr(std::string("\"field\":\"") + field)) << faults.body;
  for (const std::string& amount :
       {"1e3", "-1", "NaN", "0", "", "1.0000000000001", "99999999999999999999999999"}) {
    const auto refused =
        ask({.method = "POST",
             .path = "credits",
             .body = R"({"kind":"Grant","id":"x","author":"ann","amount":")" + amount + "\"}"});
    EXPECT_EQ(refused.status, 422) << amount << refused.body;
  }
  for (const std::string& body : {"", "[]", "{", "null"})
    EXPECT_EQ(ask({.method = "POST", .path = "credits", .body = body}).status, 400) << body;
  const auto twice = ask({.method = "POST",
                          .path = "credits",
                          .body = R"({"kind":"Grant","id":"x","author":"ann","amount":"1","amount":"2"})"});
  EXPECT_EQ(twice.status, 400);
  EXPECT_THAT(twice.body, HasSubstr("FieldDuplicate"));
  EXPECT_EQ(ask({.method = "POST", .path = "credits", .body = kGrant, .org = "No Such Name"}).status, 422);
  const auto past = ask(
      {.method = "POST",
       .path = "credits",
       .body = R"({"kind":"Grant","id":"x","author":"a","amount":"1","expires":"2020-01-01T00:00:00Z"})"});
  EXPECT_EQ(past.status, 422) << past.body;
  EXPECT_EQ(rows("credits"), 0);
}

TEST_F(OperatorRoute, EngagesTheBrakeWithAReason) {
  EXPECT_EQ(json::parse(ask({.path = "brake"}).body).at("engaged"), false);
  const auto bare = ask({.method = "PUT", .path = "brake", .body = R"({"engaged":"yes"})"});
  EXPECT_EQ(bare.status, 422);
  EXPECT_EQ(ask({.method = "PUT", .path = "brake", .body = R"({"engaged":true})"}).status, 422);
  const auto on = ask(
      {.method = "PUT", .path = "brake", .body = R"({"engaged":true,"reason":"wrong sums","author":"ann"})"});
  EXPECT_EQ(on.status, 200) << on.body;
  EXPECT_EQ(json::parse(on.body).at("engaged"), true);
  EXPECT_EQ(json::parse(on.body).at("changes").as_array().front().at("reason"), "wrong sums");
  EXPECT_EQ(
      ask({.method = "PUT", .path = "brake", .body = R"({"engaged":false,"reason":"mended","author":"ann"})"})
          .status,
      200);
  EXPECT_EQ(rows("brake_changes"), 2);
}

TEST_F(OperatorRoute, KnowsNoQueryThatItDoesNotName) {
  for (const char* path : {"prices", "credits", "brake"})
    EXPECT_EQ(ask({.path = path, .query = "limits"}).status, 400) << path;
}

}  // namespace
}  // namespace nodus::metering::test
