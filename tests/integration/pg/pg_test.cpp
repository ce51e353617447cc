#include <gtest/gtest.h>

#include <thread>

#include "libs/pg/arrays.hpp"
#include "libs/pg/connection.hpp"
#include "libs/pg/reader.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::pg {
namespace {

struct PgTest : testing::Test {
  ConnectOptions options{.url = test::fresh_database({}, "part"),
                         .schema = "part",
                         .application_name = "it's a test",
                         .statement_timeout = Millis(300),
                         .lock_timeout = Millis(200),
                         .idle_in_transaction_timeout = Millis(300)};
  Connection connection{options};

  static std::string run(Connection& on, const std::string& sql) {  // the reason of the error, or ""
    auto done = on.with_tx([&](pqxx::work& tx) -> Result<void> {
      tx.exec(sql);
      return {};
    });
    return done ? "" : done.error().reason;
  }
  static std::string text(Connection& on, const std::string& sql) {
    return on
        .with_tx([&](pqxx::work& tx) -> Result<std::string> { return tx.exec1(sql)[0].as<std::string>(); })
        .value();
  }
};

TEST_F(PgTest, SettingsHoldOnEveryConnection) {
  EXPECT_EQ(text(connection, "SHOW search_path"), "part");
  EXPECT_EQ(text(connection, "SHOW application_name"), "it's a test");
  EXPECT_EQ(text(connection, "SHOW statement_timeout"), "300ms");
  EXPECT_EQ(text(connection, "SHOW timezone"), "UTC");
  connection.disconnect();
  EXPECT_EQ(text(connection, "SHOW lock_timeout"), "200ms");
}

TEST_F(PgTest, ErrorsAreSortedByWhetherARetryCanHelp) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)"), "");
  EXPECT_EQ(run(connection, "INSERT INTO t VALUES (1)"), "DatabaseRejected");
  EXPECT_EQ(run(connection, "SELEC 1"), "DatabaseRejected");
  EXPECT_EQ(run(connection, "SELECT pg_sleep(5)"), "DatabaseBusy");
  Connection other(options);
  pqxx::work holder(other.raw());
  holder.exec("LOCK TABLE t");
  EXPECT_EQ(run(connection, "SELECT * FROM t"), "DatabaseBusy");
  EXPECT_EQ(run(connection, "SELECT 1"), "");
}

TEST_F(PgTest, AnErrorValueRollsBack) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n int)"), "");
  auto refused = connection.with_tx([](pqxx::work& tx) -> Result<int> {
    tx.exec("INSERT INTO t VALUES (1)");
    return fail(Code::kNotFound, "NotFound", "");
  });
  EXPECT_EQ(refused.error().reason, "NotFound");
  EXPECT_EQ(text(connection, "SELECT count(*) FROM t"), "0");
}

TEST_F(PgTest, ALostConnectionIsReplaced) {
  Connection killer(options);
  auto pid = text(connection, "SELECT pg_backend_pid()");
  EXPECT_EQ(text(killer, "SELECT pg_terminate_backend(" + pid + ", 5000)"), "t");
  EXPECT_EQ(run(connection, "SELECT 1"), "");  // it died while idle: nobody notices
  EXPECT_EQ(run(connection, "SELECT pg_terminate_backend(pg_backend_pid())"), "DatabaseUnavailable");
  EXPECT_EQ(run(connection, "SELECT 1"), "");
  test::crash_and_restart_postgres();
  EXPECT_EQ(run(connection, "SELECT 1"), "");
}

TEST_F(PgTest, AReadNeedsNoTransactionAndGoesOnWhenItsConnectionDied) {
  Pool pool(options, 1);
  const auto value = [&](const std::string& sql) -> std::string {  // or the reason of the error
    auto read = pg::read(pool, [&](pqxx::nontransaction& reader) -> Result<std::string> {
      return reader.exec1(sql)[0].c_str();
    });
    return read ? *read : read.error().reason;
  };
  EXPECT_EQ(value("SELECT pg_current_xact_id_if_assigned() IS NULL"), "t");
  EXPECT_EQ(value("SHOW statement_timeout"), "300ms");
  EXPECT_EQ(value("SELEC 1"), "DatabaseRejected");
  EXPECT_EQ(value("SELECT pg_sleep(5)"), "DatabaseBusy");
  Connection killer(options);
  const auto pid = value("SELECT pg_backend_pid()");
  EXPECT_EQ(text(killer, "SELECT pg_terminate_backend(" + pid + ", 5000)"), "t");
  EXPECT_EQ(value("SELECT 1"), "1");  // it died while idle: nobody notices
  EXPECT_EQ(value("SELECT pg_terminate_backend(pg_backend_pid())"), "DatabaseUnavailable");
  EXPECT_EQ(value("SELECT 1"), "1");
  test::crash_and_restart_postgres();
  EXPECT_EQ(value("SELECT 1"), "1");
  ConnectOptions nowhere = options;
  nowhere.url = "host=/nonexistent";
  Pool none(nowhere, 1);
  const auto refused = pg::read(none, [](pqxx::nontransaction&) -> Result<int> { return 1; });
  EXPECT_EQ(refused.error().reason, "DatabaseUnavailable");
}

TEST_F(PgTest, AnIdleTransactionIsEndedByTheServer) {
  auto lost = connection.with_tx([&](pqxx::work& tx) -> Result<void> {
    auto pid = tx.exec1("SELECT pg_backend_pid()")[0].as<std::string>();
    Connection watcher(options);
    while (text(watcher, "SELECT count(*) FROM pg_stat_activity WHERE pid = " + pid) != "0") {
    }
    tx.exec("SELECT 1");
    return {};
  });
  EXPECT_EQ(lost.error().reason, "DatabaseUnavailable");
}

TEST_F(PgTest, NoServerIsUnavailable) {
  Connection nowhere({.url = "host=/nonexistent user=postgres", .schema = "part"});
  EXPECT_EQ(run(nowhere, "SELECT 1"), "DatabaseUnavailable");
}

TEST_F(PgTest, APoolLendsEachConnectionOnceAndSaysWhenItIsEmpty) {
  Pool pool(options, 1);
  {
    auto lease = pool.acquire().value();
    EXPECT_EQ(pool.acquire(Millis(1)).error().reason, "DatabasePoolExhausted");
    std::jthread waiting([&] { EXPECT_TRUE(pool.acquire(Millis(10'000)).has_value()); });
    {
      auto gone = std::move(lease);
    }
  }
  EXPECT_TRUE(pool.acquire(Millis(1)).has_value());
}

TEST_F(PgTest, ArraysCarryAnyBytes) {
  auto same = connection.with_tx([](pqxx::work& tx) -> Result<std::vector<std::string>> {
    std::string all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
    auto rows = tx.exec_params(
        "SELECT t, b, i, l FROM unnest($1::text[], $2::bytea[], $3::int[], $4::bigint[]) AS u (t, b, i, l)",
        text_array({"a,\"b\"", "\\ 'é {}"}), bytea_array({all, ""}), int4_array({-1, 2'147'483'647}),
        int8_array({INT64_MIN, INT64_MAX}));
    EXPECT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0][0].as<std::string>(), "a,\"b\"");
    EXPECT_EQ(rows[1][0].as<std::string>(), "\\ 'é {}");
    EXPECT_EQ(pqxx::binarystring(rows[0][1]).str(), all);
    EXPECT_EQ(pqxx::binarystring(rows[1][1]).size(), 0u);
    EXPECT_EQ(rows[0][2].as<int>(), -1);
    EXPECT_EQ(rows[1][2].as<int>(), 2'147'483'647);
    EXPECT_EQ(rows[0][3].as<int64_t>(), INT64_MIN);
    EXPECT_EQ(rows[1][3].as<int64_t>(), INT64_MAX);
    EXPECT_TRUE(tx.exec_params("SELECT unnest($1::bytea[])", bytea_array({})).empty());
    return std::vector<std::string>{};
  });
  EXPECT_TRUE(same.has_value()) << same.error().message;
}

}  // namespace
}  // namespace nodus::pg
