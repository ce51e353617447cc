// The use cases on a real PostgreSQL.
#include "services/lifecycle/app/sandboxes.hpp"

#include <latch>
#include <set>
#include <thread>

#include "libs/base/random.hpp"
#include "libs/eventlog/aggregate.hpp"
#include "tests/integration/lifecycle/lifecycle_fixture.hpp"

namespace nodus::lifecycle {
namespace {

TEST_F(Lifecycle, ANameIsFreeAgainAfterDeletion) {
  const auto first = sandboxes_.create(wanted("a"));
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(sandboxes_.remove(first->sandbox).has_value());
  EXPECT_EQ(sandboxes_.create(wanted("a")).error().reason, "SandboxNotRunning") << "still terminating";
  change(first->sandbox, RecordLapse{1, "Deleted", StopReason::kDelete});
  EXPECT_EQ(catalog_.sandbox(ProjectId("web"), "a").error().code, Code::kNotFound);
  const auto second = sandboxes_.create(wanted("a"));
  ASSERT_TRUE(second.has_value());
  EXPECT_NE(second->sandbox.uid, first->sandbox.uid);
}

TEST_F(Lifecycle, OtherProjectsSeeNothing) {
  ASSERT_TRUE(sandboxes_.create(wanted("a")).has_value());
  EXPECT_EQ(catalog_.sandbox(ProjectId("other"), "a").error().code, Code::kNotFound);
  EXPECT_TRUE(catalog_.sandboxes(ProjectId("other"), {})->items.empty());
}

TEST_F(Lifecycle, ProcessesAreNumberedAndAdmittedOncePerKey) {
  const auto sandbox = make_running("a");
  const NewProcess process{
      .command = {"true"}, .timeout = Seconds(5), .idempotency_key = "k", .input_hash = "h"};
  const auto first = sandboxes_.admit(sandbox, process);
  const auto again = sandboxes_.admit(sandbox, process);
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->process->admitted.name, "sb-a-1");
  EXPECT_EQ(again->process->admitted.uid, first->process->admitted.uid);
  EXPECT_EQ(sandboxes_.admit(sandbox, {.command = {"true"}})->process->admitted.name, "sb-a-2");
  EXPECT_TRUE(*catalog_.busy(sandbox.uid));
  EXPECT_EQ(catalog_.processes(ProjectId("web"), {})->items.size(), 2u);
}

TEST_F(Lifecycle, ACommandWakesAStoppedSandbox) {
  auto sandbox = make_running("a");
  change(sandbox, RequestStop{});
  sandbox = change(sandbox, RecordRelease{{.start = 1,
                                           .stop_reason = StopReason::kUser,
                                           .failure = "",
                                           .message = "",
                                           .restore_point = {},
                                           .at = clock_.now()}});
  ASSERT_EQ(sandbox.phase, Phase::kStopped);
  const auto admission = sandboxes_.admit(sandbox, {.command = {"true"}});
  ASSERT_TRUE(admission.has_value());
  EXPECT_FALSE(admission->process.has_value());
  EXPECT_EQ(admission->sandbox.phase, Phase::kPending);
  EXPECT_EQ(admission->sandbox.start, 2);
}

TEST_F(Lifecycle, ARebuildFromEventsGivesTheHeadRow) {
  const auto sandbox = make_running("a");
  sandboxes_.admit(sandbox, {.command = {"true"}});
  sandboxes_.stop(sandbox);
  auto rebuilt = eventlog::rebuild<SandboxAggregate, SandboxCodec>(*log_, sandbox_stream(sandbox.uid));
  ASSERT_TRUE(rebuilt.has_value());
  EXPECT_EQ(*rebuilt, *catalog_.sandbox(sandbox.uid));
}

}  // namespace
}  // namespace nodus::lifecycle
