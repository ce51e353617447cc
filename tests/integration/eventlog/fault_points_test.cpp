#include <cstdlib>

#include "tests/integration/eventlog/postgres_subject.hpp"

namespace nodus::eventlog::contract {
namespace {

// Read once by the process, so these tests are a program of their own.
const int kSet = setenv("NODUS_FAILPOINT", "log.before_commit=error:2,log.after_commit=error:1", 1);

TEST(FaultPoints, FailBeforeAndAfterTheCommit) {
  ASSERT_EQ(kSet, 0);
  PostgresSubject subject;
  auto work = std::vector{add("s/1", 1, "k", "h")};
  EXPECT_EQ(subject.log().run(work)[0].error().reason, "CommitUnknown");  // kept, but the caller cannot know
  EXPECT_EQ(subject.log().head("s/1").value().version, 1);
  EXPECT_EQ(subject.log().run(work)[0].value(), "1");  // the repeat finds the stored answer
  auto next = std::vector{add("s/1")};
  EXPECT_EQ(subject.log().run(next)[0].error().reason, "DatabaseUnavailable");
  EXPECT_EQ(subject.log().head("s/1").value().version, 1);
  EXPECT_EQ(subject.log().run(next)[0].value(), "2");
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EventLogContract);
}  // namespace nodus::eventlog::contract
