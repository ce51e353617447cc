// What only the PostgreSQL log does: SQL in the same transaction, database errors, lost connections, ranges.
#include <atomic>

#include "tests/integration/eventlog/postgres_subject.hpp"

namespace nodus::eventlog::contract {
namespace {

struct PostgresLogTest : testing::Test {
  PostgresSubject subject;
  EventLog& log = subject.log();

  void SetUp() override { sql("CREATE TABLE names (name text PRIMARY KEY, n int)"); }
  void sql(const std::string& statement) {
    auto done = subject.pool.with_tx([&](pg::Tx& tx) -> Result<void> {
      tx.exec(statement);
      return {};
    });
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
  int count(const std::string& table) {
    return subject.pool
        .with_tx(
            [&](pg::Tx& tx) -> Result<int> { return tx.exec1("SELECT count(*) FROM " + table)[0].as<int>(); })
        .value();
  }
  // Adds an event and a row of `names`; refuses a name that decide() can see.
  static Work claim_name(const std::string& name, const std::string& stream, bool look = false) {
    return {"", "", {stream}, [=](Unit& unit) -> Result<std::string> {
              if (look && !unit.sql()->exec_params("SELECT FROM names WHERE name = $1", name).empty())
                return fail(Code::kConflict, "AlreadyExists", "taken");
              unit.append(stream, {{"test.Named", name}}, name, 1);
              unit.project([=](pg::Tx& tx) { tx.exec_params("INSERT INTO names VALUES ($1)", name); });
              return name;
            }};
  }
};

TEST_F(PostgresLogTest, ProjectionsCommitWithTheEvents) {
  EXPECT_TRUE(log.run(std::vector{claim_name("a", "s/1")})[0].has_value());
  EXPECT_EQ(count("names"), 1);
}

TEST_F(PostgresLogTest, ADecisionReadsRowsOfEarlierWorks) {
  auto answers = log.run(std::vector{claim_name("a", "s/1", true), claim_name("a", "s/2", true)});
  EXPECT_TRUE(answers[0].has_value());
  EXPECT_EQ(answers[1].error().reason, "AlreadyExists");
}

TEST_F(PostgresLogTest, AProjectionThatFailsTakesOnlyItsWorkWithIt) {
  std::vector<Work> works;
  for (int i = 0; i < 20; ++i)
    works.push_back(claim_name(i == 13 ? "0" : std::to_string(i), "s/" + std::to_string(i)));
  auto answers = log.run(works);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].has_value(), i != 13) << i;
  EXPECT_EQ(answers[13].error().reason, "DatabaseRejected");
  EXPECT_EQ(log.head("s/13").value().version, 0);
  EXPECT_EQ(count("names"), 19);
  expect_sound(log);
}

TEST_F(PostgresLogTest, TextThatIsNotUtf8IsRefusedAlone) {
  auto answers = log.run(std::vector{add("s/1"), add("s/2", 1, "\xff", "h"), add("s/3"), add("s/\xc0")});
  EXPECT_TRUE(answers[0].has_value());
  EXPECT_EQ(answers[1].error().reason, "DatabaseRejected");
  EXPECT_TRUE(answers[2].has_value());
  EXPECT_EQ(answers[3].error().reason, "DatabaseRejected");
  expect_sound(log);
}

TEST_F(PostgresLogTest, NothingOfARefusedWorkStays) {
  Work refused{"key", "h", {"s/1"}, [](Unit& unit) -> Result<std::string> {
                 unit.append("s/1", {{"t", ""}}, "x", 1);
                 unit.project([](pg::Tx& tx) { tx.exec("INSERT INTO names VALUES ('never')"); });
                 return fail(Code::kInvalid, "No", "no");
               }};
  log.run(std::vector{refused});
  for (const char* table : {"names", "heads", "idempotency", "events"}) EXPECT_EQ(count(table), 0) << table;
}

TEST_F(PostgresLogTest, RunTogetherIsAllOrNothing) {
  auto good = log.run_together(std::vector{add("s/1")},
                               [](pg::Tx& tx) { tx.exec("INSERT INTO names VALUES ('offset', 1)"); });
  EXPECT_TRUE(good.has_value());
  auto bad = log.run_together(std::vector{add("s/1")},
                              [](pg::Tx& tx) { tx.exec("INSERT INTO names VALUES ('offset', 2)"); });
  EXPECT_EQ(bad.error().reason, "DatabaseRejected");
  EXPECT_EQ(log.head("s/1").value().version, 1);
  EXPECT_EQ(count("names"), 1);
  auto empty = log.run_together({}, [](pg::Tx& tx) { tx.exec("INSERT INTO names VALUES ('more')"); });
  EXPECT_TRUE(empty.has_value());
  EXPECT_EQ(count("names"), 2);
}

TEST_F(PostgresLogTest, AConnectionLostInCommitIsUnknownAndAKeyMakesTheRepeatSafe) {
  sql("CREATE FUNCTION vanish() RETURNS trigger LANGUAGE plpgsql AS"
      " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
      "CREATE CONSTRAINT TRIGGER vanish AFTER INSERT ON names DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
      " EXECUTE FUNCTION vanish()");
  Work work = claim_name("a", "s/1");
  work.key = "k";
  work.input_hash = "h";
  auto lost = log.run(std::vector{work});
  EXPECT_EQ(lost[0].error().code, Code::kUnavailable);
  EXPECT_EQ(lost[0].error().reason, "CommitUnknown");
  sql("DROP TRIGGER vanish ON names");
  EXPECT_EQ(log.run(std::vector{work})[0].value(), "a");
  EXPECT_EQ(log.run(std::vector{work})[0].value(), "a");
  EXPECT_EQ(log.head("s/1").value().version, 1);
}

TEST_F(PostgresLogTest, AConnectionLostInTheMiddleKeepsNothing) {
  Work cut{"", "", {"s/1"}, [](Unit& unit) -> Result<std::string> {
             unit.append("s/1", {{"t", ""}}, "x", 1);
             unit.project([](pg::Tx& tx) { tx.exec("SELECT pg_terminate_backend(pg_backend_pid())"); });
             return "";
           }};
  auto lost = log.run(std::vector{add("s/2"), cut});
  EXPECT_EQ(lost[0].error().code, Code::kUnavailable);
  EXPECT_EQ(lost[1].error().reason, "DatabaseUnavailable");
  EXPECT_TRUE(log.run(std::vector{add("s/1")})[0].has_value());
  EXPECT_EQ(log.head("s/2").value().version, 0);
  expect_sound(log);
}

TEST_F(PostgresLogTest, ACrashOfTheServerIsSurvived) {
  log.run(std::vector{add("s/1", 3)});
  test::crash_and_restart_postgres();
  EXPECT_EQ(log.run(std::vector{add("s/1")})[0].value(), "4");  // nothing had run on the dead connection
  expect_sound(log);
}

TEST_F(PostgresLogTest, PartitionsAreFixedForGood) {
  auto other = make_postgres_log(subject.clock, subject.pool, 8);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().reason, "LogPartitionsDiffer");
}

TEST_F(PostgresLogTest, EventsCrossFromRangeToRange) {
  sql("DROP TABLE events_0, events_1, events_2; UPDATE log_settings SET range_size = 10; SELECT "
      "log_ensure_ranges(1)");
  EXPECT_EQ(log.run(std::vector{add("s/1", 17)})[0].value(), "17");
  EXPECT_FALSE(
      log.run(std::vector{add("s/1", 9)})[0].has_value());  // beyond the last range: refused, not lost
  ASSERT_TRUE(ensure_ranges(subject.pool).has_value());
  ASSERT_TRUE(ensure_ranges(subject.pool).has_value());
  EXPECT_EQ(log.run(std::vector{add("s/1", 9)})[0].value(), "26");
  expect_sound(log);
}

TEST_F(PostgresLogTest, BigBatchesAndBigStates) {
  std::vector<Work> works;
  for (int i = 0; i < 2'000; ++i) works.push_back(add("s/" + std::to_string(i)));
  works.push_back({"", "", {"big"}, [](Unit& unit) -> Result<std::string> {
                     unit.append("big", {{"t", std::string(1'000'000, '\0')}}, std::string(1'000'000, '\xfe'),
                                 1);
                     return "";
                   }});
  for (const auto& answer : log.run(works)) ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(log.head("big").value().state, std::string(1'000'000, '\xfe'));
  EXPECT_EQ(log.read_stream("big", 0, 1).value()[0].payload, std::string(1'000'000, '\0'));
}

}  // namespace
}  // namespace nodus::eventlog::contract
