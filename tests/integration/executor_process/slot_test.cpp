// Commands of a slot, from admission to the report, with the real helper.
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "libs/base/random.hpp"
#include "nodus/node/v1/channel.pb.h"
#include "services/executor/process/process_service.hpp"
#include "tests/integration/executor_process/sandbox.hpp"

namespace nodus::executor {
namespace {
using test::Runtime;
using test::Sandbox;

class SlotTest : public testing::TestWithParam<Runtime> {
 protected:
  void SetUp() override {
    sandbox = std::make_unique<Sandbox>(GetParam());
    view.key = {SandboxUid(random_uuid()), 3};
    view.directory = sandbox->directory() / "slot";
    view.run_socket = sandbox->socket();
    view.uid = view.gid = test::kUser;
    view.env = {"PATH=/bin:/usr/bin", "HOME=" + sandbox->inside(), "KIND=image"};
    view.working_dir = sandbox->inside();
    view.tasks_limit = sandbox->tasks_limit();
    start_node();
  }
  void TearDown() override { stop_node(); }

  void start_node() {
    outbox = std::make_unique<ReportOutbox>(
        OutboxOptions{sandbox->directory() / "outbox", "m1", 100, Millis(1), Millis(10)},
        [this](const std::string& body) { return take(body); });
    processes =
        std::make_unique<Processes>(limits, *outbox, [this](const std::string&) { changed.notify_all(); });
    ASSERT_TRUE(processes->open(view, Seconds(20)).has_value());
    ASSERT_TRUE(processes->open(view, Seconds(20)).has_value());
  }
  // What kill -9 leaves: nothing is ended, nothing is told to the helper.
  void stop_node() {
    processes.reset();
    outbox.reset();
  }
  Result<void> take(const std::string& body) {
    node::v1::ProcessReports message;
    EXPECT_TRUE(message.ParseFromString(body));
    std::lock_guard hold(mutex);
    for (const auto& report : message.reports()) reports[report.process_uid()] = report;
    changed.notify_all();
    return {};
  }
  CommandRequest request(std::vector<std::string> argv) {
    CommandRequest request;
    request.uid = random_uuid();
    request.name = "sb-hello-1";
    request.argv = std::move(argv);
    return request;
  }
  std::string start(const CommandRequest& request) {
    const auto started = processes->find(view.key)->start(request);
    EXPECT_TRUE(started.has_value()) << (started ? "" : started.error().message);
    return request.uid;
  }
  std::string sh(const std::string& script) { return start(request({"sh", "-c", script})); }
  CommandView state(const std::string& uid) { return *processes->find(view.key)->view(uid); }
  CommandEnd end_of(const std::string& uid) {
    EXPECT_TRUE(test::eventually([&] { return state(uid).ended; }));
    return state(uid).end;
  }
  std::string output_of(const std::string& uid, int stream = 0) {
    const auto command = state(uid);
    OutputFile::Cursor cursor;
    OutputFrame frame;
    std::string all;
    while (command.output && command.output->read(cursor, frame).value_or(false))
      if (!stream || frame.stream == stream) all += frame.data;
    return all;
  }
  std::optional<node::v1::ProcessReport> report_of(const std::string& uid) {
    std::unique_lock hold(mutex);
    changed.wait_for(hold, Seconds(30), [&] { return reports.contains(uid); });
    const auto found = reports.find(uid);
    return found == reports.end() ? std::nullopt : std::optional(found->second);
  }

  std::unique_ptr<Sandbox> sandbox;
  SlotView view;
  ProcessLimits limits;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, node::v1::ProcessReport> reports;
  std::unique_ptr<ReportOutbox> outbox;
  std::unique_ptr<Processes> processes;
};

TEST_P(SlotTest, StartsOnceAndReportsTheEnd) {
  auto asked = request({"sh", "-c", "echo $KIND $MORE; echo x >> once; exit 7"});
  asked.env = {"MORE=asked", "KIND=mine"};
  for (int i = 0; i < 3; ++i) start(asked);
  const auto end = end_of(asked.uid);
  EXPECT_EQ(end.reason, "NonZeroExit");
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_EQ(output_of(asked.uid), "mine asked\n");
  start(asked);
  const auto report = report_of(asked.uid);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->reason(), "NonZeroExit");
  EXPECT_EQ(report->exit_code(), 7);
  EXPECT_EQ(report->epoch(), 3);
  EXPECT_EQ(report->sandbox_uid(), view.key.sandbox.str());
  EXPECT_GT(report->started_at_us(), 0);
  EXPECT_GE(report->ended_at_us(), report->started_at_us());
  const auto seen = sh("cat once");
  EXPECT_EQ(end_of(seen).exit_code, 0);
  EXPECT_EQ(output_of(seen), "x\n");
}

TEST_P(SlotTest, KillsAtTheTimeout) {
  auto asked = request({"sh", "-c", "sleep 1000 & echo waiting; sleep 1000"});
  asked.timeout = Millis(300);
  const auto end = end_of(start(asked));
  EXPECT_EQ(end.reason, "DeadlineExceeded");
  EXPECT_EQ(end.exit_code, 137);
  EXPECT_TRUE(test::eventually([&] { return !processes->activity(view.key).busy; }));
}

// Whoever became their parent, whatever session they made.
TEST_P(SlotTest, TheTimeoutEndsDaemonsOfTheCommandToo) {
  auto other = request({"sh", "-c", "(setsid sleep 1000 >/dev/null 2>&1 &) ; exec sleep 1000"});
  start(other);
  auto asked = request({"sh", "-c",
                        "(setsid sh -c '(setsid sleep 1001 &) ; exec sleep 1001' >/dev/null 2>&1 &) ; echo "
                        "on; exec sleep 1000"});
  asked.timeout = Millis(1'500);
  const auto end = end_of(start(asked));
  EXPECT_EQ(end.reason, "DeadlineExceeded");
  const auto seen = [&](const char* what) {
    const auto look = sh(std::string("ps -o args 2>/dev/null | grep -c '^sleep ") + what + "'");
    end_of(look);
    return output_of(look);
  };
  if (GetParam() != Runtime::kPlain) {  // where /proc is that of the Sandbox
    EXPECT_EQ(seen("1001"), "0\n");
    EXPECT_EQ(seen("1000"), "2\n");  // another command's are not touched
  }
  ASSERT_TRUE(processes->find(view.key)->cancel(other.uid).has_value());
  EXPECT_EQ(end_of(other.uid).reason, "Cancelled");
  EXPECT_TRUE(test::eventually([&] { return !processes->activity(view.key).busy; }));
}

TEST_P(SlotTest, CutsOutputAtTheLimit) {
  stop_node();
  limits.output_bytes = 300'000;
  start_node();
  const auto uid = sh("yes");
  EXPECT_EQ(end_of(uid).reason, "OutputLimitExceeded");
  EXPECT_EQ(output_of(uid).size(), 300'000u);
}

TEST_P(SlotTest, GoesOnAfterARestart) {
  const auto quick = sh("echo before; exit 4");
  const auto slow = sh("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 5");
  ASSERT_TRUE(test::eventually([&] { return output_of(slow) == "one\n" && state(quick).ended; }));
  stop_node();
  start_node();
  sh("touch go");
  EXPECT_EQ(end_of(slow).exit_code, 5);
  EXPECT_EQ(output_of(slow), "one\ntwo\n");
  EXPECT_EQ(end_of(quick).exit_code, 4);
  EXPECT_EQ(report_of(slow)->exit_code(), 5);
  EXPECT_EQ(report_of(quick)->exit_code(), 4);
}

TEST_P(SlotTest, LosesNoByteOverRestarts) {
  const auto uid = sh("seq 1 2000000 | head -c 10485760");
  for (int i = 0; i < 8 && !state(uid).ended; ++i) {
    const auto before = state(uid).output->end();
    ASSERT_TRUE(test::eventually([&] { return state(uid).ended || state(uid).output->end() > before; }));
    stop_node();
    start_node();
  }
  EXPECT_EQ(end_of(uid).reason, "");
  std::string expected;
  for (int i = 1; expected.size() < 10485760; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(sha256_hex(output_of(uid)), sha256_hex(expected.substr(0, 10485760)));
}

TEST_P(SlotTest, EndsAllForAStop) {
  const auto first = sh("sleep 1000 & sleep 1000");
  const auto second = sh("setsid sleep 1000 & exit 0");
  EXPECT_EQ(end_of(second).reason, "");
  EXPECT_TRUE(processes->activity(view.key).busy);
  processes->close_admission(view.key);
  const auto refused = processes->find(view.key)->start(request({"true"}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().reason, "SlotNotRunning");
  ASSERT_FALSE(processes->find(view.key)->begin_file_request().has_value());
  const auto done = processes->end_all(view.key, "ParentStopped", Seconds(20));
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(end_of(first).reason, "ParentStopped");
  EXPECT_EQ(end_of(first).exit_code, 137);
  EXPECT_FALSE(processes->activity(view.key).busy);
  EXPECT_EQ(report_of(first)->reason(), "ParentStopped");
  processes->close(view.key, "ParentStopped");
  processes->close(view.key, "ParentStopped");
  EXPECT_EQ(processes->find(view.key), nullptr);
}

// Or an idle stop that is declined would be due again at once.
TEST_P(SlotTest, ABusySlotWasUsedJustNow) {
  const auto daemon = sh("setsid sleep 1000 & exit 0");
  EXPECT_EQ(end_of(daemon).reason, "");
  const auto now = SystemClock().now();
  const auto activity = processes->activity(view.key);
  EXPECT_TRUE(activity.busy);
  EXPECT_GE(activity.last, now);
  ASSERT_TRUE(processes->end_all(view.key, "ParentStopped", Seconds(20)).has_value());
  const auto quiet = processes->activity(view.key);
  EXPECT_FALSE(quiet.busy);
  EXPECT_EQ(quiet.last, processes->activity(view.key).last);
}

TEST_P(SlotTest, AClosedSlotEndsWhatIsOpen) {
  const auto uid = sh("sleep 1000");
  const auto slot = processes->find(view.key);
  processes->close(view.key, "ParentStopped");
  EXPECT_TRUE(slot->view(uid)->ended);
  EXPECT_EQ(slot->view(uid)->end.reason, "ParentStopped");
  EXPECT_EQ(report_of(uid)->reason(), "ParentStopped");
}

TEST_P(SlotTest, RefusesTooManyCommandsAtOnce) {
  stop_node();
  limits.commands = 3;
  start_node();
  for (int i = 0; i < 3; ++i) sh("sleep 1000");
  const auto refused = processes->find(view.key)->start(request({"true"}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kTooManyRequests);
  EXPECT_TRUE(processes->end_all(view.key, "ParentStopped", Seconds(20)).has_value());
}

// All of them run, and each may still be given input, signals and an end.
TEST_P(SlotTest, RunsAThousandAndTwentyFourAtOnce) {
  std::vector<std::string> uids;
  for (int i = 0; i < 1024; ++i) uids.push_back(start(request({"sleep", "1000"})));
  const auto refused = processes->find(view.key)->start(request({"true"}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kTooManyRequests);
  EXPECT_EQ(refused.error().reason, "TooManyRequests");
  const auto slot = processes->find(view.key);
  const auto all_started = [&] {
    return std::all_of(uids.begin(), uids.end(), [&](const auto& uid) {
      const auto view = slot->view(uid);
      return view && view->started && !view->ended;
    });
  };
  ASSERT_TRUE(test::eventually(all_started, 120)) << state(uids.back()).end.message;
  ASSERT_TRUE(slot->cancel(uids[500]).has_value());
  EXPECT_EQ(end_of(uids[500]).reason, "Cancelled");
  const auto next = sh("sleep 0.01; echo there is room");  // that starts another process
  EXPECT_EQ(end_of(next).reason, "") << end_of(next).message;
  EXPECT_TRUE(test::eventually(
      [&] { return processes->end_all(view.key, "ParentStopped", Seconds(60)).has_value(); }));
  EXPECT_EQ(end_of(uids[0]).reason, "ParentStopped");
}

INSTANTIATE_TEST_SUITE_P(Runtimes, SlotTest,
                         testing::Values(Runtime::kPlain, Runtime::kRunc, Runtime::kRunsc),
                         [](const auto& info) { return test::to_text(info.param); });

}  // namespace
}  // namespace nodus::executor
