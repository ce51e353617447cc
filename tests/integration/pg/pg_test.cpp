#include <fmt/format.h>
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
    auto done = on.with_tx([&](Tx& tx) -> Result<void> {
      tx.exec(sql);
      return {};
    });
    return done ? "" : done.error().reason;
  }
  static std::string text(Connection& on, const std::string& sql) {
    return on.with_tx([&](Tx& tx) -> Result<std::string> { return tx.exec1(sql)[0].as<std::string>(); })
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
  auto refused = connection.with_tx([](Tx& tx) -> Result<int> {
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

// ---- Statements that travel together

TEST_F(PgTest, WhatWasPutOffIsThereForEveryLaterStatement) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n bigint, s text, b bytea, flag boolean)"), "");
  const auto seen = connection.with_tx([](Tx& tx) -> Result<std::string> {
    tx.later(
        {"t_add", "INSERT INTO t VALUES ($1, $2, $3, $4)", 1, "one", pqxx::binarystring("\0x", 2), true});
    const auto rows = tx.run({"t_all", "SELECT n, s, b, flag, s IS NULL FROM t ORDER BY n"});
    std::string out = fmt::format("{} {} {} {} {}", rows.size(), rows.int8(0, 0), rows.bytes(0, 1),
                                  rows.bytes(0, 2).size(), rows.boolean(0, 3));
    tx.later({"t_add", "INSERT INTO t VALUES ($1, $2, $3, $4)", int64_t{2}, std::optional<std::string>(),
              std::optional<pqxx::binarystring>(), false});
    out += " " + tx.exec1("SELECT count(*) FROM t")[0].as<std::string>();
    tx.later({"t_add", "INSERT INTO t VALUES ($1, $2, $3, $4)", 3, "", pqxx::binarystring("", 0), false});
    return out;
  });
  EXPECT_EQ(seen.value(), "1 1 one 2 true 2");
  EXPECT_EQ(text(connection, "SELECT string_agg(n || coalesce('=' || s, ''), ' ' ORDER BY n) FROM t"),
            "1=one 2 3=");
}

TEST_F(PgTest, ManyPutOffStatementsGoInBoundedLots) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n int)"), "");
  const auto done = connection.with_tx([](Tx& tx) -> Result<void> {
    for (int n = 0; n < 1'000; ++n) tx.later({"t_add", "INSERT INTO t VALUES ($1)", n});
    return {};
  });
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(text(connection, "SELECT count(DISTINCT n) FROM t"), "1000");
}

TEST_F(PgTest, AFaultOfOneThatWasPutOffUndoesAll) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n int PRIMARY KEY)"), "");
  const auto twice = [](Tx& tx) {
    tx.later({"t_add", "INSERT INTO t VALUES ($1)", 1});
    tx.later({"t_add", "INSERT INTO t VALUES ($1)", 1});
  };
  bool reached = false;
  const auto early = connection.with_tx([&](Tx& tx) -> Result<void> {
    twice(tx);
    tx.exec("SELECT 1");
    reached = true;
    return {};
  });
  EXPECT_EQ(early.error().reason, "DatabaseRejected");
  EXPECT_FALSE(reached);
  const auto late = connection.with_tx([&](Tx& tx) -> Result<void> {
    twice(tx);
    return {};
  });
  EXPECT_EQ(late.error().reason, "DatabaseRejected");
  EXPECT_EQ(text(connection, "SELECT count(*) FROM t"), "0");
}

TEST_F(PgTest, TheLastStatementCommits) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n int)"), "");
  const auto kept = connection.with_tx([](Tx& tx) -> Result<int64_t> {
    tx.later({"t_add", "INSERT INTO t VALUES ($1)", 1});
    return tx.commit_with({"t_count", "SELECT count(*) FROM t"}).int8(0, 0);
  });
  EXPECT_EQ(kept.value(), 1);
  EXPECT_EQ(text(connection, "SELECT count(*) FROM t"), "1");
  const auto refused = connection.with_tx([](Tx& tx) -> Result<void> {
    tx.later({"t_add", "INSERT INTO t VALUES ($1)", 3});
    tx.commit_with({"zero", "SELECT 1 / (count(*) - 2) FROM t"});
    return {};
  });
  EXPECT_EQ(refused.error().reason, "DatabaseRejected");
  EXPECT_EQ(text(connection, "SELECT count(*) FROM t"), "1");
}

TEST_F(PgTest, AFaultThatSomebodyHidCannotCommit) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n int)"), "");
  const auto hidden = connection.with_tx([](Tx& tx) -> Result<void> {
    tx.later({"t_add", "INSERT INTO t VALUES ($1)", 1});
    try {
      tx.run({"zero", "SELECT 1 / (count(*) - 1) FROM t"});
    } catch (const pqxx::sql_error&) {
    }
    return {};
  });
  EXPECT_EQ(hidden.error().reason, "DatabaseRejected");
  EXPECT_EQ(text(connection, "SELECT count(*) FROM t"), "0");
}

TEST_F(PgTest, AnErrorAfterTheCommitIsAFaultOfTheProgram) {
  EXPECT_DEATH(
      {
        Connection own(options);
        (void)own.with_tx([](Tx& tx) -> Result<void> {
          tx.commit_with({"one", "SELECT 1"});
          return fail(Code::kNotFound, "NotFound", "");
        });
      },
      "after its transaction was committed");
  EXPECT_DEATH(
      {
        Connection own(options);
        (void)own.with_tx([](Tx& tx) -> Result<void> {
          tx.commit_with({"one", "SELECT 1"});
          tx.later({"one", "SELECT 1"});
          return {};
        });
      },
      "after the end of its transaction");
}

TEST_F(PgTest, AnyOtherFaultOnceCommitWasSentLeavesItsFateUnknown) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n int)"), "");
  const auto done = connection.with_tx([](Tx& tx) -> Result<void> {
    tx.commit_with({"t_add", "INSERT INTO t VALUES ($1)", 1});
    throw std::bad_alloc();
  });
  EXPECT_EQ(done.error().reason, "CommitUnknown");
  EXPECT_EQ(text(connection, "SELECT count(*) FROM t"), "1");
}

// The first lot on the connection that took a dead one's place fails: its transaction must not stay open.
TEST_F(PgTest, AReplacedConnectionWhoseFirstStatementFailsGoesBackClean) {
  Pool pool(options, 1);
  const auto pid =
      pool.with_tx([](Tx& tx) -> Result<int> { return tx.exec1("SELECT pg_backend_pid()")[0].as<int>(); });
  Connection killer(options);
  EXPECT_EQ(text(killer, "SELECT pg_terminate_backend(" + std::to_string(pid.value()) + ", 5000)"), "t");
  const auto failed = pool.with_tx([](Tx& tx) -> Result<void> {
    tx.run({"zero", "SELECT 1 / (count(*) - 1) FROM pg_database WHERE datname = 'postgres'"});
    return {};
  });
  EXPECT_EQ(failed.error().reason, "DatabaseRejected");
  const auto read = pg::read(pool, [](pqxx::nontransaction& reader) -> Result<int> {
    return reader.exec1("SELECT 7")[0].as<int>();
  });
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const auto next = pool.with_tx([](Tx& tx) -> Result<int64_t> {
    return tx
        .run({"in_tx",
              "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
              " AND datname = current_database()"})
        .int8(0, 0);
  });
  ASSERT_TRUE(next.has_value()) << next.error().message;
  EXPECT_EQ(*next, 0);
}

TEST_F(PgTest, ABodyThatHidesALostConnectionCommitsNothing) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (n int)"), "");
  const auto done = connection.with_tx([](Tx& tx) -> Result<void> {
    tx.run({"t_add", "INSERT INTO t VALUES ($1)", 1});
    try {
      tx.run({"die", "SELECT pg_terminate_backend(pg_backend_pid())"});
    } catch (const pqxx::broken_connection&) {
    }
    tx.run({"t_add", "INSERT INTO t VALUES ($1)", 2});
    return {};
  });
  EXPECT_EQ(done.error().reason, "DatabaseUnavailable");
  EXPECT_EQ(text(connection, "SELECT count(*) FROM t"), "0");
}

TEST_F(PgTest, TheBodysOwnErrorStandsThoughTheConnectionDiedMeanwhile) {
  Connection killer(options);
  const auto done = connection.with_tx([&](Tx& tx) -> Result<void> {
    const auto pid = tx.exec1("SELECT pg_backend_pid()")[0].as<std::string>();
    EXPECT_EQ(text(killer, "SELECT pg_terminate_backend(" + pid + ", 5000)"), "t");
    return fail(Code::kNotFound, "NotFound", "");
  });
  EXPECT_EQ(done.error().reason, "NotFound");
  EXPECT_EQ(run(connection, "SELECT 1"), "");
}

TEST_F(PgTest, AStatementThatCouldNotBePreparedIsTriedAgain) {
  const auto count = [&] {
    return connection.with_tx(
        [](Tx& tx) -> Result<int64_t> { return tx.run({"late", "SELECT count(*) FROM late"}).int8(0, 0); });
  };
  EXPECT_EQ(count().error().reason, "DatabaseRejected");
  ASSERT_EQ(run(connection, "CREATE TABLE late (n int)"), "");
  EXPECT_EQ(count().value(), 0);
  EXPECT_EQ(count().value(), 0);
}

TEST_F(PgTest, AZeroByteInTextIsRefusedNotCutOff) {
  ASSERT_EQ(run(connection, "CREATE TABLE t (s text)"), "");
  const auto done = connection.with_tx([](Tx& tx) -> Result<void> {
    tx.later({"t_add", "INSERT INTO t VALUES ($1)", std::string("a\0b", 3)});
    return {};
  });
  EXPECT_EQ(done.error().reason, "DatabaseRejected");
}

TEST_F(PgTest, AConnectionLostInCommitLeavesItsFateUnknown) {
  const auto commit = [&](bool with_more) {
    auto done = connection.with_tx([&](Tx& tx) -> Result<void> {
      tx.exec("SELECT 1");
      if (with_more)
        tx.commit_with({"die", "SELECT pg_terminate_backend(pg_backend_pid())"});
      else
        tx.later({"die", "SELECT pg_terminate_backend(pg_backend_pid())"});
      return {};
    });
    return done ? "" : done.error().reason;
  };
  EXPECT_EQ(commit(true), "CommitUnknown");
  EXPECT_EQ(commit(false), "CommitUnknown");
  const auto before = connection.with_tx([&](Tx& tx) -> Result<void> {
    tx.run({"die", "SELECT pg_terminate_backend(pg_backend_pid())"});
    return {};
  });
  EXPECT_EQ(before.error().reason, "DatabaseUnavailable");
}

TEST_F(PgTest, AConnectionThatDiedWhileIdleIsReplacedForEveryKindOfFirstStatement) {
  Connection killer(options);
  const auto die = [&] {
    const auto pid = text(connection, "SELECT pg_backend_pid()");
    EXPECT_EQ(text(killer, "SELECT pg_terminate_backend(" + pid + ", 5000)"), "t");
  };
  const auto one = [&](const std::function<void(Tx&)>& body) {
    die();
    auto done = connection.with_tx([&](Tx& tx) -> Result<void> {
      body(tx);
      return {};
    });
    return done ? "" : done.error().reason;
  };
  EXPECT_EQ(one([](Tx& tx) { tx.run({"one", "SELECT 1"}); }), "");
  EXPECT_EQ(one([](Tx& tx) { tx.later({"one", "SELECT 1"}); }), "");
  EXPECT_EQ(one([](Tx& tx) { tx.commit_with({"one", "SELECT 1"}); }), "");
  EXPECT_EQ(one([](Tx& tx) { tx.exec("SELECT 1"); }), "");
  EXPECT_EQ(one([](Tx&) {}), "");
}

TEST_F(PgTest, AnIdleTransactionIsEndedByTheServer) {
  auto lost = connection.with_tx([&](Tx& tx) -> Result<void> {
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
  auto same = connection.with_tx([](Tx& tx) -> Result<std::vector<std::string>> {
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
