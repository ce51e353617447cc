// The schema finance, as the role that dashboards have; and a month recomputed from the log.
#include <gtest/gtest.h>

#include "services/metering/adapters/postgres/bill.hpp"
#include "services/metering/adapters/recompute.hpp"
#include "tests/integration/metering/world.hpp"

namespace nodus::metering::test {
namespace {

class Views : public ::testing::Test {
 protected:
  Views() {
    world_.credit("1.00", "g1");
    world_.consume();
  }
  void run(const std::string& uid, double from, double to, const std::string& cap = "") {
    world_.scheduler.offer(uid, 1, cap);
    world_.scheduler.reserve(uid, 1, from);
    world_.scheduler.release(uid, 1, from, from + 1, to - 1, to);
    world_.await_all();
  }
  // As nodus_finance: the first cell, or "refused".
  std::string as_finance(const std::string& sql) {
    auto answer = world_.pool.with_tx([&](pg::Tx& tx) -> Result<std::string> {
      tx.exec("SET LOCAL ROLE nodus_finance");
      const auto rows = tx.exec(sql);
      return rows.empty() || rows.columns() == 0 ? "" : std::string(rows[0][0].c_str());
    });
    return answer ? *answer : "refused";
  }
  std::vector<std::string> names(const std::string& sql) {
    std::vector<std::string> out;
    auto done = world_.pool.with_tx([&](pg::Tx& tx) -> Result<void> {
      for (const auto& row : tx.exec(sql)) out.emplace_back(row[0].c_str());
      return {};
    });
    EXPECT_TRUE(done) << done.error().message;
    return out;
  }

  World world_;
};

TEST_F(Views, EachIsDocumentedToTheColumn) {
  EXPECT_TRUE(names("SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                    " WHERE n.nspname = 'finance' AND obj_description(c.oid) IS NULL")
                  .empty());
  EXPECT_TRUE(
      names("SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'finance' AND a.attnum > 0"
            " AND col_description(c.oid, a.attnum) IS NULL")
          .empty());
}

TEST_F(Views, TheRoleReadsThemAndNothingElse) {
  const auto views = names("SELECT viewname FROM pg_views WHERE schemaname = 'finance' ORDER BY 1");
  EXPECT_GE(views.size(), 13u);
  for (const auto& view : views) {
    EXPECT_NE(as_finance("SELECT count(*) FROM finance." + view), "refused") << view;
    EXPECT_EQ(as_finance("INSERT INTO finance." + view + " DEFAULT VALUES"), "refused") << view;
    EXPECT_EQ(as_finance("DELETE FROM finance." + view), "refused") << view;
  }
  for (const auto& table : names("SELECT tablename FROM pg_tables WHERE schemaname = 'metering'"
                                 " UNION SELECT viewname FROM pg_views WHERE schemaname = 'metering'"))
    EXPECT_EQ(as_finance("SELECT * FROM metering." + table + " LIMIT 0"), "refused") << table;
  for (const char* sql :
       {"SELECT * FROM metering.open_lines(NULL, 0)", "CREATE TABLE finance.mine (x integer)",
        "CREATE TABLE metering.mine (x integer)", "CREATE SCHEMA mine",
        "CREATE VIEW finance.mine AS SELECT 1", "SELECT * FROM scheduler.events LIMIT 0",
        "ALTER VIEW finance.lines OWNER TO nodus_finance"})
    EXPECT_EQ(as_finance(sql), "refused") << sql;
}

TEST_F(Views, TellWhatTheBillTells) {
  run("u1", 10, 100);
  run("u2", 57'590, 57'700, "0.000000000900");  // over midnight, and over its cap of 100 s
  // One that is open since an hour ago, by the clock of the database.
  const double ago =
      world_.count("SELECT extract(epoch FROM now())::bigint") - 3'600.0 - static_cast<double>(kT0);
  world_.scheduler.offer("u3", 1);
  world_.scheduler.reserve("u3", 1, ago);
  world_.await_all();
  const auto posted = "0.000000001710";  // 9 × (90 + 100)
  EXPECT_EQ(as_finance("SELECT sum(amount_usd) FROM finance.lines WHERE NOT is_open"), posted);
  for (const char* view :
       {"spend_by_hour", "spend_by_day", "spend_by_project", "spend_by_sandbox", "spend_by_reason"})
    EXPECT_EQ(as_finance(std::string("SELECT sum(amount_usd) = (SELECT sum(amount_usd) FROM finance.lines)"
                                     " FROM finance.") +
                         view),
              "t")
        << view;
  EXPECT_EQ(as_finance("SELECT count(*) FROM finance.spend_by_hour WHERE NOT reason = 'Charged'"), "1");
  EXPECT_EQ(as_finance("SELECT sum(waived_usd) || ' ' || min(reason) FROM finance.waived"),
            "0.000000000090 MaxCostReached");
  EXPECT_EQ(as_finance("SELECT sandbox || ' ' || is_running || ' ' || hold_usd FROM finance.holds"),
            "box-u3 true 0.000000000675");
  EXPECT_EQ(as_finance("SELECT sum(seconds) BETWEEN 3600 AND 3700 FROM finance.lines WHERE is_open"), "t");
  EXPECT_EQ(as_finance("SELECT balance_usd = 1 - 0.000000001710 - (SELECT sum(amount_usd) FROM finance.lines"
                       " WHERE is_open) FROM finance.balances"),
            "t");
  EXPECT_EQ(as_finance("SELECT forecast_usd >= month_to_date_usd AND usd_per_second = 0.000000000009"
                       " FROM finance.forecast"),
            "t");
  EXPECT_EQ(as_finance("SELECT count(*) FROM finance.storage"), "0");
}

TEST_F(Views, AMonthIsRecomputedFromTheLog) {
  run("u1", 10, 100);
  run("u2", 57'590, 57'700, "0.000000000900");
  run("u3", 1'439'990, 1'440'010);  // over the month's end
  const auto january = recompute(world_.pool, *world_.log, 202701, OrgId());
  ASSERT_TRUE(january) << january.error().message;
  ASSERT_EQ(january->size(), 1u);
  const auto& acme = january->front();
  EXPECT_EQ(acme.faults, 0) << acme.example;
  EXPECT_EQ(acme.amount.pico(), 9 * (90 + 100 + 10));
  EXPECT_EQ(acme.amount, acme.stored_amount);
  EXPECT_EQ(acme.lines, acme.stored_lines);
  EXPECT_EQ(recompute(world_.pool, *world_.log, 202702, OrgId("acme"))->front().amount.pico(), 90);
  EXPECT_TRUE(recompute(world_.pool, *world_.log, 202702, OrgId("rival"))->empty());
  for (const std::string forgery :
       {"UPDATE bill_lines SET sandbox_name = 'x' WHERE sandbox_uid = 'u1' AND ordinal = 1 RETURNING 1",
        "DELETE FROM bill_lines WHERE sandbox_uid = 'u1' AND ordinal = 2 RETURNING 1",
        "INSERT INTO bill_lines (sandbox_uid, start, ordinal, org, project, sandbox_name, kind, from_s, "
        "to_s, rate, amount,"
        " waived, reason) VALUES ('u9', 1, 1, 'acme', 'web', 'n', 'Running', 1800000000, 1800000001, 0, 0, "
        "false,"
        " 'Charged') RETURNING 1",
        "UPDATE bill_days SET amount = amount + 0.000000000001 WHERE kind = 'Running' AND reason = 'Charged'"
        " AND day = 20833 RETURNING 1"}) {
    world_.text(forgery);
    const auto again = recompute(world_.pool, *world_.log, 202701, OrgId("acme"));
    ASSERT_TRUE(again);
    EXPECT_GT(again->front().faults, 0) << forgery;
    EXPECT_FALSE(again->front().example.empty());
  }
}

}  // namespace
}  // namespace nodus::metering::test
