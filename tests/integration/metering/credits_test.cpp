// Credits: what is added, what is taken away, and what payments say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/random.hpp"
#include "services/metering/adapters/http/money_routes.hpp"
#include "services/metering/adapters/stripe.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSecret = "an identity secret of the tests";
constexpr const char* kStripeSecret = "whsec_test";

class Credits : public ::testing::Test {
 protected:
  std::string post(PostCredit credit) {
    const std::vector works = {world_.works.on_account(std::move(credit))};
    const auto answer = world_.log->run(works).front();
    return answer ? *answer : answer.error().reason;
  }
  static PostCredit credit(const std::string& kind, const std::string& amount, const std::string& id) {
    return {OrgId("acme"), id, kind, Money::parse(amount).value(), "ann"};
  }
  std::string balance() { return world_.text("SELECT credits - charged FROM accounts"); }
  http::Request asked(http::Request request, const std::string& role = "billing") {
    request.headers.set("X-Nodus-Identity", http::sign_identity({OrgId("acme"), ProjectId(), "k1", role},
                                                                kSecret, world_.clock.now()));
    return request;
  }
  http::Response webhook(const std::string& body, std::optional<std::string> signature = std::nullopt) {
    http::Request request;
    request.body = body;
    request.headers.set("Stripe-Signature", signature.value_or(sign(body)));
    return answer_stripe(deps_, request);
  }
  std::string sign(const std::string& body, Seconds ago = Seconds(0),
                   const std::string& secret = kStripeSecret) {
    const auto at =
        std::to_string(std::chrono::floor<Seconds>(world_.clock.now() - ago).time_since_epoch().count());
    return "t=" + at + ",v1=" + hmac_sha256_hex(secret, at + "." + body);
  }
  static std::string intent(const std::string& id, const std::string& cents,
                            const std::string& currency = "usd") {
    return R"({"id":"evt_1","type":"payment_intent.succeeded","data":{"object":{"id":")" + id +
           R"(","amount_received":)" + cents + R"(,"currency":")" + currency +
           R"(","metadata":{"organization":"acme"}}}})";
  }
  static std::string refund(const std::string& total) {
    return R"({"type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":"pi_1","amount_refunded":)" +
           total + R"(,"currency":"usd"}}})";
  }

  World world_;
  const MoneyDeps deps_{world_.clock, world_.pool, *world_.log,  world_.works,
                        Durations(),  kSecret,     kStripeSecret};
};

TEST_F(Credits, EachKindOnceUnderItsId) {
  EXPECT_EQ(post(credit("Purchase", "100.00", "p1")), "done");
  EXPECT_EQ(post(credit("Purchase", "100.00", "p1")), "repeated");
  EXPECT_EQ(post(credit("Purchase", "100.01", "p1")), "CreditIdReused");
  EXPECT_EQ(post(credit("Grant", "100.00", "p1")), "CreditIdReused");
  EXPECT_EQ(post(credit("Purchase", "1.00", "p2")), "done");
  EXPECT_EQ(post(credit("Grant", "9.00", "g1")), "done");
  EXPECT_EQ(post(credit("Refund", "10.00", "r1")), "done");
  EXPECT_EQ(post(credit("Refund", "10.00", "r1")), "repeated");
  EXPECT_EQ(post(credit("Adjustment", "-0.50", "a1")), "done");
  EXPECT_EQ(post(credit("Adjustment", "0.25", "a2")), "done");
  EXPECT_EQ(balance(), "99.750000000000");
  const auto events = world_.events("account/acme");
  EXPECT_EQ(std::ranges::count(events, "FirstPurchase"), 1);
  EXPECT_EQ(std::ranges::count(events, "CreditPosted"), 6);
  EXPECT_EQ(world_.text("SELECT string_agg(account || ' ' || sum, ', ' ORDER BY account) FROM"
                        " (SELECT account, sum(amount) AS sum FROM ledger_lines GROUP BY 1) a"),
            "Adjustments -0.250000000000, Cash 91.000000000000, CustomerCredit -99.750000000000, "
            "GrantedCredit 9.000000000000");
  EXPECT_TRUE(world_.audited());
}

TEST_F(Credits, NothingTakesWhatIsSpentOrHeld) {
  post(credit("Purchase", "0.000000001000", "p1"));
  world_.consume();
  world_.scheduler.offer("u1", 1);  // holds 675
  world_.await_all();
  EXPECT_EQ(post(credit("Refund", "0.000000000326", "r1")), "CreditSpent");
  EXPECT_EQ(post(credit("Adjustment", "-0.000000000326", "a1")), "CreditSpent");
  EXPECT_EQ(post(credit("Adjustment", "-0.000000000325", "a2")), "done");
  PostCredit back = credit("Refund", "0.000000000500", "r2");
  back.paid_back = true;
  EXPECT_EQ(post(back), "done");
  EXPECT_EQ(world_.text("SELECT amount || ' ' || uncovered FROM credits WHERE id = 'r2'"),
            "0.000000000000 0.000000000500");
  EXPECT_TRUE(world_.audited());
}

TEST_F(Credits, WhatAGrantHasLeftLeavesAtItsInstant) {
  post(credit("Purchase", "1.00", "p1"));
  auto grant = credit("Grant", "0.000000001000", "g1");
  grant.expires_s = kT0 + 60;
  EXPECT_EQ(post(grant), "done");
  EXPECT_EQ(post(grant), "repeated");
  grant.expires_s = kT0 + 61;
  EXPECT_EQ(post(grant), "CreditIdReused");
  EXPECT_EQ(world_.count("SELECT due_us / 1000000 FROM balance_deadlines") - kT0, 60);
  world_.consume();
  world_.scheduler.offer("u1", 1);
  world_.scheduler.reserve("u1", 1, 10);
  world_.await_all();
  world_.at(40);
  EXPECT_THAT(answer_balance(deps_, asked({})).body, HasSubstr(R"("left":"0.000000000730")"));
  world_.at(59.9);
  world_.run_deadlines();
  EXPECT_EQ(world_.count("SELECT count(*) FROM postings WHERE kind = 'Expiry'"), 0);
  world_.at(60);
  world_.run_deadlines();
  EXPECT_EQ(world_.text("SELECT ref || ' ' || amount FROM postings WHERE kind = 'Expiry'"),
            "g1 -0.000000000550");
  EXPECT_THAT(answer_credits(deps_, asked({})).body, HasSubstr(R"("expired":"0.000000000550")"));
  world_.scheduler.release("u1", 1, 10, 11, 69, 70);
  world_.await_all();
  EXPECT_EQ(balance(), "0.999999999910");
  EXPECT_EQ(world_.text("SELECT sum(amount) FROM ledger_lines WHERE account = 'ExpiredCredit'"),
            "-0.000000000550");
  EXPECT_TRUE(world_.audited());
}

TEST_F(Credits, RefusesWhatMakesNoSense) {
  for (auto [kind, amount] : std::vector<std::pair<std::string, std::string>>{
           {"Gift", "1.00"}, {"Grant", "0"}, {"Grant", "-1.00"}, {"Refund", "-1.00"}, {"Adjustment", "0.00"}})
    EXPECT_EQ(post(credit(kind, amount, "x")), "Invalid") << kind << " " << amount;
  auto late = credit("Grant", "1.00", "x");
  late.expires_s = kT0;
  EXPECT_EQ(post(late), "Invalid");
  auto bought = credit("Purchase", "1.00", "x");
  bought.expires_s = kT0 + 100;
  EXPECT_EQ(post(bought), "Invalid");
  auto odd = credit("Grant", "1.00", "x");
  odd.priority = 10;
  EXPECT_EQ(post(odd), "Invalid");
  EXPECT_EQ(post(credit("Grant", "1.00", "two words")), "Invalid");
  for (const char* text :
       {"1e3", "1.5e-3", "NaN", "inf", "0x10", "1,00", "+1.00", " 1", "1.0000000000001", ""})
    EXPECT_FALSE(Money::parse(text)) << text;
  EXPECT_EQ(world_.count("SELECT count(*) FROM credits"), 0);
}

TEST_F(Credits, APaymentIsPostedOnceHoweverOftenItIsTold) {
  const std::string session =
      R"({"type":"checkout.session.completed","data":{"object":{"id":"cs_1","payment_intent":"pi_1",)"
      R"("payment_status":"paid","amount_total":2500,"currency":"usd","metadata":{"organization":"acme"}}}})";
  EXPECT_THAT(webhook(session).body, HasSubstr(R"("posted":true)"));
  EXPECT_THAT(webhook(session).body, HasSubstr(R"("posted":false)"));
  EXPECT_THAT(webhook(intent("pi_1", "2500")).body, HasSubstr(R"("posted":false)"));
  EXPECT_EQ(webhook(intent("pi_1", "2501")).status, 409);
  EXPECT_EQ(balance(), "25.000000000000");
  EXPECT_EQ(webhook(R"({"type":"customer.created","data":{}})").status, 200);
  // Refunds tell the total so far, and may come in any order.
  EXPECT_EQ(webhook(refund("1500")).status, 200);
  EXPECT_THAT(webhook(refund("500")).body, HasSubstr(R"("posted":false)"));
  EXPECT_THAT(webhook(refund("1500")).body, HasSubstr(R"("posted":false)"));
  EXPECT_EQ(webhook(refund("2000")).status, 200);
  EXPECT_EQ(balance(), "5.000000000000");
  EXPECT_TRUE(world_.audited());
}

TEST_F(Credits, AWebhookThatIsNotGenuinePostsNothing) {
  const auto body = intent("pi_1", "2500");
  EXPECT_EQ(webhook(body, "").status, 400);
  EXPECT_EQ(webhook(body, "t=,v1=").status, 400);
  EXPECT_EQ(webhook(body, "t=1e9,v1=00").status, 400);
  EXPECT_EQ(webhook(body, sign(body, Seconds(0), "another")).status, 400);
  EXPECT_EQ(webhook(body + " ", sign(body)).status, 400);
  EXPECT_EQ(webhook(body, sign(body, Seconds(301))).status, 400);
  EXPECT_EQ(webhook(body, sign(body, Seconds(-301))).status, 400);
  EXPECT_EQ(webhook(intent("pi_1", "2500", "eur")).status, 422);
  for (const char* cents : {"25.5", "2.5e3", "-2500", "0", "\"2500\"", "null", "99999999999999999999"})
    EXPECT_EQ(webhook(intent("pi_1", cents)).status, 422) << cents;
  EXPECT_EQ(webhook(R"({"type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","amount_received":1,)"
                    R"("currency":"usd","metadata":{}}}})")
                .status,
            422);
  EXPECT_EQ(webhook("not json").status, 400);
  EXPECT_EQ(webhook(refund("100")).status, 409);  // its payment is unknown
  EXPECT_EQ(world_.count("SELECT count(*) FROM credits"), 0);
  const auto at = sign(body);
  EXPECT_EQ(webhook(body, at.substr(0, at.find(',')) + ",v1=00,v0=x" + at.substr(at.find(','))).status, 200);
}

TEST_F(Credits, PeopleSeeBalanceCreditsPricesAndQuotes) {
  post(credit("Purchase", "0.000000001000", "p1"));
  world_.consume();
  world_.scheduler.offer("u1", 1);
  world_.scheduler.reserve("u1", 1, 10);
  world_.await_all();
  world_.at(20);
  const auto balance = answer_balance(deps_, asked({})).body;
  EXPECT_THAT(balance, HasSubstr(R"("balance":"0.000000000910")"));
  EXPECT_THAT(balance, HasSubstr(R"("held":"0.000000000675")"));
  EXPECT_THAT(balance, HasSubstr(R"("available":"0.000000000235")"));
  EXPECT_THAT(answer_credits(deps_, asked({})).body, HasSubstr(R"("id":"p1")"));
  EXPECT_THAT(answer_prices(deps_, asked({})).body, HasSubstr(R"("state":"InForce")"));
  http::Request request;
  request.query = {{"cpu", "2"}, {"memory", "4Gi"}};
  const auto quote = answer_quote(deps_, asked(request, "viewer")).body;
  EXPECT_THAT(quote, HasSubstr(R"("ratePerSecond":"0.000000000018")"));
  EXPECT_THAT(quote, HasSubstr(R"("ratePerHour":"0.000000064800")"));
  EXPECT_THAT(quote, HasSubstr(R"("hold":"0.000000001350")"));
  EXPECT_THAT(quote, HasSubstr(R"("funded":false)"));
  for (auto [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"cpu", "65"}, {"cpu", "1.5.0"}, {"memory", "NaN"}, {"disk", "-1Gi"}, {"machineType", "own-1"}}) {
    http::Request bad;
    bad.query = {{name, value}};
    EXPECT_EQ(answer_quote(deps_, asked(bad)).status, 422) << name << "=" << value;
  }
  for (auto* handler : {answer_balance, answer_credits, answer_prices, answer_quote}) {
    EXPECT_EQ(handler(deps_, {}).status, 401);
    http::Request bad;
    bad.query = {{"color", "red"}};
    EXPECT_EQ(handler(deps_, asked(bad)).status, 400);
  }
}

}  // namespace
}  // namespace nodus::metering::test
