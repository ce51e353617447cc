// Closing months: invoices that add up, numbers without a gap, and corrections of what came late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>
#include <thread>

#include "services/metering/adapters/http/invoice_routes.hpp"
#include "services/metering/adapters/postgres/invoices.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

constexpr double kFebruary = 1'440'000;  // 2027-02-01T00:00:00Z, after kT0
constexpr double kMarch = kFebruary + 28.0 * 86'400;
constexpr double kHour = 3'600;

class Invoices : public ::testing::Test {
 protected:
  Invoices() {
    // 0.008 USD a vCPU-second: 0.009 with what comes on top.
    world_.text(
        "INSERT INTO prices (version, effective_us, cpu_per_vcpu_s, memory_per_gib_s, disk_per_gib_s,"
        " published_us) VALUES ('dear', 1, 0.008, 0, 0, 0) RETURNING version");
    world_.credit("1000000.00", "g1");
    world_.consume();
  }
  void run(const std::string& uid, int64_t start, double from, double to) {
    world_.scheduler.offer(uid, start);
    world_.scheduler.reserve(uid, start, from);
    world_.scheduler.release(uid, start, from, from, to, to);
    world_.await_all();
  }
  void open(const std::string& uid, double from) {
    world_.scheduler.offer(uid, 1);
    world_.scheduler.reserve(uid, 1, from);
    world_.await_all();
  }
  // Some fact, so that metering is known to have heard of the world until now.
  void fact(const std::string& uid) {
    world_.scheduler.offer(uid, 1);
    world_.await_all();
  }
  std::vector<ClosedMonth> close(Month month, const std::string& org = "acme") {
    auto closed = close_months(world_.pool, OrgId(org), month, "NODUS", world_.clock.now());
    EXPECT_TRUE(closed) << closed.error().message;
    return closed ? *closed : std::vector<ClosedMonth>();
  }
  Invoice invoice(const std::string& number) {
    auto read = read_invoice(world_.pool, OrgId("acme"), number);
    EXPECT_TRUE(read) << read.error().message;
    return read ? *read : Invoice();
  }
  // "Usage 202701 Running 3600 32.4", one a line, without the rounding.
  std::vector<std::string> lines(const std::string& number) {
    std::vector<std::string> out;
    for (const auto& line : invoice(number).lines)
      if (line.type != "Rounding")
        out.push_back(line.type + " " + std::to_string(line.month) + " " + line.kind + " " +
                      std::to_string(line.seconds) + " " + line.amount.to_decimal());
    return out;
  }

  World world_;
};

TEST_F(Invoices, LinesAddUpToWholeCents) {
  run("u1", 1, 10, 11);
  run("u1", 2, 20, 82.5);
  world_.at(kFebruary - 1);
  auto early = close_months(world_.pool, OrgId("acme"), 202701, "NODUS", world_.clock.now());
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().reason, "MonthNotOver");
  world_.at(kFebruary + kHour);
  const auto closed = close(202701);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].number, "NODUS-00000001");
  EXPECT_FALSE(closed[0].before);
  const auto one = invoice("NODUS-00000001");
  EXPECT_EQ(one.total.to_decimal(), "0.580000000000");  // 64 × 0.009 = 0.576
  Money sum;
  for (const auto& line : one.lines) sum += line.amount;
  EXPECT_EQ(sum, one.total);
  EXPECT_EQ(one.lines.back().type, "Rounding");
  EXPECT_EQ(one.lines.back().amount.to_decimal(), "0.004000000000");
  EXPECT_TRUE(close(202701)[0].before);
  EXPECT_EQ(close(202701)[0].number, "NODUS-00000001");
  EXPECT_EQ(world_.count("SELECT count(*) FROM invoices"), 1);
  EXPECT_FALSE(read_invoice(world_.pool, OrgId("rival"), "NODUS-00000001"));
}

TEST_F(Invoices, WhatIsOpenAtTheEndIsInvoicedAndNotCorrectedWhenItWentOn) {
  open("u1", kFebruary - kHour);
  world_.at(kFebruary + 60);
  fact("u2");
  close(202701);
  EXPECT_THAT(lines("NODUS-00000001"), testing::ElementsAre("Usage 202701 Starting 3600 32.400000000000"));
  world_.scheduler.release("u1", 1, kFebruary - kHour, kFebruary + kHour, kFebruary + kHour,
                           kFebruary + kHour);
  world_.await_all();
  EXPECT_EQ(world_.count("SELECT count(*) FROM bill_lines WHERE late_in = 202702"), 1);
  world_.at(kMarch + 1);
  close(202702);
  EXPECT_THAT(lines("NODUS-00000002"), testing::ElementsAre("Usage 202702 Starting 3600 32.400000000000"));
  EXPECT_TRUE(world_.audited());
}

TEST_F(Invoices, AnIntervalThatEndedEarlierIsCorrectedInTheNext) {
  open("u1", kFebruary - kHour);
  world_.at(kFebruary + 60);
  fact("u2");
  close(202701);
  // The machine was lost half an hour before the month's end, and that is heard of now.
  world_.scheduler.release("u1", 1, kFebruary - kHour, kFebruary - 1'800, kFebruary - 1'800,
                           kFebruary - 1'800);
  world_.await_all();
  world_.at(kMarch + 1);
  close(202702);
  EXPECT_THAT(lines("NODUS-00000002"),
              testing::ElementsAre("Correction 202701 Starting -1800 -16.200000000000"));
  EXPECT_EQ(invoice("NODUS-00000002").total.to_decimal(), "-16.200000000000");
}

TEST_F(Invoices, OnlyWhatIsProvenIsInvoiced) {
  open("u1", kFebruary - kHour);
  world_.at(kFebruary - kHour + 600);
  fact("u2");  // the last that is heard before the month is closed
  world_.at(kFebruary + kHour);
  close(202701);
  EXPECT_EQ(to_rfc3339(to_instant(invoice("NODUS-00000001").proven_to_s)), "2027-01-31T23:10:00Z");
  EXPECT_THAT(lines("NODUS-00000001"), testing::ElementsAre("Usage 202701 Starting 600 5.400000000000"));
  world_.at(kMarch + 10);
  fact("u3");
  close(202702);
  EXPECT_THAT(lines("NODUS-00000002"),
              testing::ElementsAre("Usage 202702 Starting 2419200 21772.800000000000",
                                   "Correction 202701 Starting 3000 27.000000000000"));
}

TEST_F(Invoices, ANewLateLineIsACorrectionAndMonthsAreClosedInOrder) {
  world_.at(kMarch + 1);
  run("u1", 1, 10, 20);
  const auto closed = close(202702);  // January was never asked for
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].month, 202701);
  EXPECT_EQ(closed[0].number, "NODUS-00000001");
  EXPECT_EQ(closed[1].number, "");  // nothing to invoice
  run("u2", 1, kFebruary - 5, kFebruary + 5);
  world_.at(kMarch + 31 * 24 * kHour + 1);
  close(202703);
  EXPECT_THAT(lines("NODUS-00000002"), testing::ElementsAre("Correction 202701 Running 5 0.045000000000",
                                                            "Correction 202702 Running 5 0.045000000000"));
  EXPECT_TRUE(world_.audited());
}

TEST_F(Invoices, AreReadAsJsonAndCsvByTheirOrganization) {
  run("u1", 1, 10, 20);
  world_.at(kFebruary + 1);
  close(202701);
  const BillDeps deps{world_.clock, world_.pool, "secret"};
  const auto ask = [&](const std::string& org, std::multimap<std::string, std::string> query,
                       const std::string& number = "") {
    http::Request request{.method = "GET", .query = std::move(query), .params = {{"number", number}}};
    request.headers.set("X-Nodus-Identity", http::sign_identity({OrgId(org), ProjectId(), "k", "billing"},
                                                                "secret", world_.clock.now()));
    return number.empty() ? answer_invoices(deps, request) : answer_invoice(deps, request);
  };
  const auto list = json::parse(ask("acme", {}).body).as_object();
  ASSERT_EQ(list.at("items").as_array().size(), 1u);
  EXPECT_EQ(list.at("items").at(0).at("month"), "2027-01");
  EXPECT_TRUE(json::parse(ask("rival", {}).body).at("items").as_array().empty());
  EXPECT_EQ(json::parse(ask("acme", {}, "NODUS-00000001").body).at("total"), "0.090000000000");
  EXPECT_EQ(ask("acme", {{"format", "csv"}}, "NODUS-00000001").body,
            "Invoice,InvoiceMonth,Type,Month,Project,Kind,Reason,Seconds,Amount,Currency\r\n"
            "NODUS-00000001,2027-01,Usage,2027-01,web,Running,Charged,10,0.090000000000,USD\r\n"
            "NODUS-00000001,2027-01,Rounding,2027-01,,,Charged,0,0.000000000000,USD\r\n");
  EXPECT_EQ(ask("rival", {}, "NODUS-00000001").status, 404);
  EXPECT_EQ(ask("acme", {{"format", "pdf"}}, "NODUS-00000001").status, 400);
  EXPECT_EQ(ask("acme", {{"limit", "0"}}).status, 400);
  EXPECT_EQ(ask("acme", {{"continue", "x"}}).status, 400);
  EXPECT_EQ(ask("", {}).status, 401);
}

TEST_F(Invoices, NumbersHaveNoGapWhoeverAsksAtOnce) {
  world_.text(
      "WITH o AS (SELECT 'org' || n AS org FROM generate_series(1, 12) n), h AS (INSERT INTO heads (stream,"
      " log_partition) SELECT 'account/' || org, 0 FROM o), d AS (INSERT INTO bill_days (org, day, project, "
      "kind,"
      " reason, seconds, amount, lines) SELECT org, 20834, 'p', 'Running', 'Charged', 1, 0.009, 1 FROM o)"
      " SELECT count(*) FROM o");
  world_.at(kFebruary + 1);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 1; i <= 12; ++i) {
        const auto org = "org" + std::to_string((i + thread * 3) % 12 + 1);
        EXPECT_TRUE(close_months(world_.pool, OrgId(org), 202701, "NODUS", world_.clock.now()));
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(world_.text("SELECT count(*) || ' ' || min(sequence) || ' ' || max(sequence) FROM invoices"),
            "12 1 12");
  EXPECT_THROW(world_.text("UPDATE invoices SET total = 0 RETURNING 1"), std::exception);
}

TEST_F(Invoices, TheSumOfAllIsTheSumOfTheLinesWhateverCameLate) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  struct Span {
    std::string uid;
    double from, to;
  };
  std::vector<Span> open_spans;
  double now = 0;
  int next = 0;
  for (int month = 0; month < 3; ++month) {
    const double end = month == 0 ? kFebruary : month == 1 ? kMarch : kMarch + 31 * 24 * kHour;
    for (int i = 0; i < 12; ++i) {
      now += (end - now) * pick(30) / 100;
      world_.at(now);
      const std::string uid = "u" + std::to_string(next++);
      open(uid, now);
      open_spans.push_back({uid, now, now + pick(40) * 24 * kHour});
      if (pick(3) == 0) {  // one ends now, or is said to have ended before
        const auto at = open_spans.begin() + pick(static_cast<int>(open_spans.size()));
        const double ended = at->from + (now - at->from) * pick(100) / 100;
        world_.scheduler.release(at->uid, 1, at->from, at->from + 1, ended, ended);
        world_.await_all();
        open_spans.erase(at);
      }
    }
    now = end + pick(1'000);
    world_.at(now + 1);
    if (pick(2) == 0) fact("f" + std::to_string(month));
    close(month == 0 ? 202701 : month == 1 ? 202702 : 202703);
  }
  for (const auto& span : open_spans)
    world_.scheduler.release(span.uid, 1, span.from, span.from + 1, now, now);
  world_.await_all();
  world_.at(now + 31 * 24 * kHour);
  close(202704);
  EXPECT_EQ(
      world_.text("SELECT sum(amount) || ' ' || sum(seconds) FROM invoice_lines WHERE type <> 'Rounding'"),
      world_.text("SELECT sum(amount) || ' ' || sum(to_s - from_s) FROM bill_lines"));
  EXPECT_EQ(
      world_.count("SELECT count(*) FROM invoices i WHERE total <> (SELECT sum(amount) FROM invoice_lines l"
                   " WHERE l.number = i.number)"),
      0);
  EXPECT_TRUE(world_.audited());
}

}  // namespace
}  // namespace nodus::metering::test
