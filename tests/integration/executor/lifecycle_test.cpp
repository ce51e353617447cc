// Slots from start to end on the real runtimes, with the real helper, commands and snapshots.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>

#include "libs/base/random.hpp"
#include "libs/linux/files.hpp"
#include "services/executor/app/reconciler.hpp"
#include "services/executor/process/process_service.hpp"
#include "services/executor/snapshot/directory_store.hpp"
#include "tests/integration/executor/sandbox.hpp"

namespace nodus::executor {
namespace {

namespace fs = std::filesystem;
using testing::Node;
using testing::on_machine;

class Lifecycle : public ::testing::TestWithParam<const char*> {
 protected:
  Lifecycle() { open(); }
  ~Lifecycle() override { close(); }

  // As nodusd does at its start; close() and open() are a restart.
  void open() {
    outbox_ = std::make_unique<ReportOutbox>(
        OutboxOptions{.directory = node_.directory() / "reports", .machine = "test"},
        [](const std::string&) { return Result<void>(); });
    processes_ = std::make_unique<Processes>(ProcessLimits{}, *outbox_, [](const std::string&) {});
    reconciler_ =
        std::make_unique<Reconciler>(node_.host(), *processes_, snapshots_, node_.store(),
                                     ReconcilerOptions{.retry_first = Millis(50), .retry_last = Millis(200)});
    const auto recovered = reconciler_->recover();
    ASSERT_TRUE(recovered) << recovered.error().message;
  }
  void close() {
    reconciler_.reset();
    processes_.reset();
    outbox_.reset();
  }
  void restart() {
    close();
    node_.reopen();
    open();
  }

  void want(std::vector<Order> orders, bool complete = true) {
    reconciler_->apply({++version_, complete, std::move(orders)});
  }
  std::optional<SlotReport> report(const SlotKey& key) {
    for (auto& report : reconciler_->reports())
      if (report.key == key) return report;
    return std::nullopt;
  }
  // Waits for a phase; nullopt: for the slot to be forgotten.
  SlotReport await(const SlotKey& key, std::optional<Phase> phase) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    uint64_t seen = 0;
    std::optional<SlotReport> now;
    while (std::chrono::steady_clock::now() < until) {
      seen = reconciler_->wait_for_change(seen, Millis(200));
      now = report(key);
      if (phase ? now && now->phase == *phase : !now) return now.value_or(SlotReport{});
    }
    ADD_FAILURE() << "phase " << (phase ? static_cast<int>(*phase) : -1) << " did not come; it is "
                  << (now ? static_cast<int>(now->phase) : -1) << " "
                  << (now ? now->failure + " " + now->message : "");
    return now.value_or(SlotReport{});
  }
  std::string start_command(const SlotKey& key, const std::string& line) {
    const auto slot = processes_->find(key);
    if (!slot) return "";
    CommandRequest request{.uid = random_uuid(), .name = "box-1", .argv = {"sh", "-c", line}};
    const auto started = slot->start(request);
    EXPECT_TRUE(started) << started.error().message;
    return request.uid;
  }
  std::optional<CommandEnd> end_of(const SlotKey& key, const std::string& uid) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < until) {
      const auto slot = processes_->find(key);
      const auto view = slot ? slot->view(uid) : Result<CommandView>(std::unexpected(Error{}));
      if (view && view->ended) return view->end;
      std::this_thread::sleep_for(Millis(10));
    }
    return std::nullopt;
  }
  int run(const SlotKey& key, const std::string& line) {
    const auto end = end_of(key, start_command(key, line));
    return end ? end->exit_code : -1;
  }
  std::string pid_of(const SlotKey& key) {
    return linux::read_file(node_.host().layout().bundle(key) / "pid").value_or("none");
  }
  static Order stopped(Order order, StopReason reason = StopReason::kOther) {
    order.stop = true;
    order.stop_reason = reason;
    return order;
  }

  Node node_{GetParam(), "10.218.0.0/20", NODUS_HELPER};
  SystemClock clock_;
  DirectoryStore snapshots_{node_.directory() / "store", clock_};
  std::unique_ptr<ReportOutbox> outbox_;
  std::unique_ptr<Processes> processes_;
  std::unique_ptr<Reconciler> reconciler_;
  int64_t version_ = 0;
};

TEST_P(Lifecycle, AStopKeepsTheFilesForTheNextStart) {
  Order order = node_.order("box");
  want({order});
  await(order.key, Phase::kRunning);
  EXPECT_EQ(
      run(order.key, "echo kept > /workspace/a && mkdir /workspace/d && rm -r /tmp && ln -s a /workspace/l"),
      1)
      << "/tmp is root's";
  EXPECT_EQ(run(order.key, "exit 7"), 7);
  want({stopped(order)});
  const auto report = await(order.key, Phase::kStopped);
  ASSERT_TRUE(report.saved);
  EXPECT_EQ(report.saved->object, "dev/" + order.key.sandbox.str() + "/1/1/1");
  EXPECT_EQ(on_machine("ip link | grep " + node_.host().layout().label).out, "");
  EXPECT_EQ(on_machine("grep " + order.key.text() + " /proc/self/mountinfo").out, "");
  want({});
  await(order.key, std::nullopt);
  EXPECT_FALSE(fs::exists(node_.store().directory(order.key)));

  Order again = order;
  again.key.epoch = 2;
  again.start = 2;
  again.restore_point = report.saved;
  want({again});
  await(again.key, Phase::kRunning);
  EXPECT_EQ(run(again.key,
                "test \"$(cat /workspace/a)\" = kept && test -d /workspace/d && echo more >> /workspace/a"),
            0);
  want({stopped(again, StopReason::kDelete)});
  EXPECT_FALSE(await(again.key, Phase::kStopped).saved) << "a delete saves nothing";
}

TEST_P(Lifecycle, ARestartAdoptsWhatRuns) {
  Order order = node_.order("box");
  want({order});
  await(order.key, Phase::kRunning);
  const auto uid = start_command(order.key, "sleep 1; exit 5");
  const auto pid = pid_of(order.key);
  restart();
  await(order.key, Phase::kRunning);
  EXPECT_EQ(pid_of(order.key), pid) << "it was started again";
  EXPECT_EQ(end_of(order.key, uid).value_or(CommandEnd{}).exit_code, 5);
  want({order});
  EXPECT_EQ(run(order.key, "exit 3"), 3);
  // An incomplete list destroys nothing, a complete one does, and leaves nothing.
  want({}, false);
  EXPECT_EQ(run(order.key, "exit 4"), 4);
  want({});
  await(order.key, std::nullopt);
  EXPECT_FALSE(fs::exists(node_.store().directory(order.key)));
  EXPECT_EQ(on_machine("grep " + node_.state().native() + "/slots /proc/self/mountinfo").out, "");
}

TEST_P(Lifecycle, AHalfDoneStartIsDoneAgainAndAHalfDoneStopGoesOn) {
  Order order = node_.order("box");
  SlotRecord record{.order = order, .network_index = 5};
  ASSERT_TRUE(node_.store().create(record));
  ASSERT_TRUE(node_.host().prepare(record));
  restart();
  EXPECT_EQ(report(order.key)->phase, Phase::kStarting) << "not before the scheduler is heard";
  want({order});
  await(order.key, Phase::kRunning);
  EXPECT_EQ(run(order.key, "echo x > /workspace/a"), 0);

  close();
  record.phase = Phase::kStopping;
  record.ran = true;
  ASSERT_TRUE(node_.store().save_state(record, true));
  node_.reopen();
  open();
  EXPECT_TRUE(await(order.key, Phase::kStopped).saved);
}

TEST_P(Lifecycle, ACrashedContainerIsSavedAndReported) {
  Order order = node_.order("box");
  want({order});
  await(order.key, Phase::kRunning);
  EXPECT_EQ(run(order.key, "echo x > /workspace/a"), 0);
  ASSERT_EQ(::kill(std::stoi(pid_of(order.key)), SIGKILL), 0);
  const auto report = await(order.key, Phase::kFailed);
  EXPECT_EQ(report.failure, "Crashed");
  EXPECT_TRUE(report.saved);
}

TEST_P(Lifecycle, AnIdleStopIsDeclinedWhenItWasUsedSince) {
  Order order = node_.order("box");
  want({order});
  await(order.key, Phase::kRunning);
  Order idle = stopped(order, StopReason::kIdle);
  idle.idle_since = clock_.now() - Seconds(60);
  EXPECT_EQ(run(order.key, "true"), 0);
  want({idle});
  const auto declined = await(order.key, Phase::kDeclined);
  EXPECT_GT(declined.activity.last, *idle.idle_since);
  EXPECT_EQ(declined.declined, idle.idle_since);
  EXPECT_EQ(run(order.key, "true"), 0) << "it goes on";
  want({order});
  await(order.key, Phase::kRunning);
  const auto uid = start_command(order.key, "sleep 300");
  idle.idle_since = clock_.now() + Seconds(60);
  want({idle});
  EXPECT_TRUE(await(order.key, Phase::kDeclined).activity.busy) << "a command runs";
  want({stopped(order)});
  await(order.key, Phase::kStopped);
  EXPECT_FALSE(uid.empty());
}

TEST_P(Lifecycle, AFailedSnapshotLosesNothing) {
  Order order = node_.order("box");
  want({order});
  await(order.key, Phase::kRunning);
  EXPECT_EQ(run(order.key, "echo x > /workspace/a"), 0);
  fs::create_directories(node_.directory() / "store");
  std::ofstream(node_.directory() / "store" / "dev") << "in the way";
  want({stopped(order)});
  await(order.key, Phase::kStopping);
  for (int i = 0; i < 5; ++i) reconciler_->wait_for_change(0, Millis(200));
  EXPECT_EQ(report(order.key)->phase, Phase::kStopping);
  EXPECT_TRUE(fs::exists(node_.host().layout().disk_image(order.key)));
  restart();
  fs::remove(node_.directory() / "store" / "dev");
  EXPECT_TRUE(await(order.key, Phase::kStopped).saved);
}

TEST_P(Lifecycle, WhatCanNeverBeSavedEndsAllTheSame) {
  Order order = node_.order("box");
  want({order});
  await(order.key, Phase::kRunning);
  EXPECT_EQ(run(order.key, "i=0; while [ $i -lt 300 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done"), 0);
  want({stopped(order)});
  const auto report = await(order.key, Phase::kStopped);
  EXPECT_FALSE(report.saved);
  EXPECT_EQ(report.failure, "");
  EXPECT_NE(report.message.find("256 deep"), std::string::npos) << report.message;
  EXPECT_FALSE(fs::exists(node_.host().layout().disk_image(order.key)));
  restart();
  EXPECT_EQ(this->report(order.key)->message, report.message) << "it is said until it is heard";
}

TEST_P(Lifecycle, WhatCannotStartIsReportedAndLeavesNothing) {
  Order order = node_.order("box");
  order.image_digest = "sha256:" + std::string(64, '0');
  Order never = node_.order("other");
  want({order, stopped(never)});
  const auto report = await(order.key, Phase::kFailed);
  EXPECT_EQ(report.failure, "StartFailed");
  EXPECT_NE(report.message.find("catalog"), std::string::npos) << report.message;
  EXPECT_FALSE(report.saved);
  EXPECT_EQ(await(never.key, Phase::kStopped).failure, "");
  EXPECT_EQ(on_machine("ip link | grep " + node_.host().layout().label).out, "");
  want({});
  await(order.key, std::nullopt);
  await(never.key, std::nullopt);
}

TEST_P(Lifecycle, AFailedStartSaysNothingOfTheMachine) {
  Order order = node_.order("box");
  std::ofstream(node_.host().layout().templates()) << "in the way";
  want({order});
  const auto report = await(order.key, Phase::kFailed);
  EXPECT_EQ(report.failure, "StartFailed");
  EXPECT_EQ(report.message.find(node_.directory().native()), std::string::npos) << report.message;
  EXPECT_NE(report.message.find("operator"), std::string::npos) << report.message;

  fs::remove(node_.host().layout().templates());
  Order inside = node_.order("other");
  inside.working_dir = "/bin/sh/below";
  want({inside});
  EXPECT_NE(await(inside.key, Phase::kFailed).message.find("/bin/sh"), std::string::npos);
}

TEST_P(Lifecycle, TemplatesOfFewSizesAreKept) {
  for (int i = 0; i < 10; ++i) {
    Order order = node_.order("box" + std::to_string(i));
    order.shape.disk_bytes += i << 20;
    const SlotRecord record{.order = order, .network_index = i + 1};
    ASSERT_TRUE(node_.store().create(record));
    ASSERT_TRUE(node_.host().prepare(record));
    ASSERT_EQ(fs::file_size(node_.host().layout().disk_image(order.key)), order.shape.disk_bytes);
    ASSERT_TRUE(node_.host().teardown(record));
  }
  const fs::directory_iterator kept(node_.host().layout().templates());
  EXPECT_EQ(std::distance(begin(kept), end(kept)), 8);
}

TEST_P(Lifecycle, ManyStartAtOnce) {
  std::vector<Order> orders;
  for (int i = 0; i < 6; ++i) orders.push_back(node_.order("box" + std::to_string(i)));
  want(orders);
  for (const auto& order : orders) await(order.key, Phase::kRunning);
  for (const auto& order : orders) EXPECT_EQ(run(order.key, "true"), 0);
  want({});
  for (const auto& order : orders) await(order.key, std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, Lifecycle, ::testing::Values("runc", "runsc"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace nodus::executor
