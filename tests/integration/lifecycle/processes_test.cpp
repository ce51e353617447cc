// Processes on a real PostgreSQL: every one of them ends, whatever its machine says or does not say.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "services/lifecycle/adapters/directory_output_store.hpp"
#include "services/lifecycle/app/process_keeper.hpp"
#include "tests/integration/lifecycle/lifecycle_fixture.hpp"

namespace nodus::lifecycle {
namespace {

class Processes : public Lifecycle {
 protected:
  Processes() {
    char name[] = "/tmp/nodus-outputs-XXXXXX";
    directory_ = mkdtemp(name);
    outputs_ = std::move(*make_directory_output_store(directory_, {}));
    keeper_ = std::make_unique<ProcessKeeper>(
        batcher_, pool_, catalog_, *outputs_, clock_,
        [this](const Sandbox&, const ProcessAdmitted& process) -> Result<void> {
          asked_.push_back(process.uid);
          if (!node_answers_) return fail(Code::kUnavailable, "ConnectionFailed", "");
          return {};
        },
        KeeperOptions{.poll = Millis(0), .grace = Seconds(30), .hand_over = Seconds(10), .ask = Micros(0)});
  }
  ~Processes() override { std::filesystem::remove_all(directory_); }

  void release(const Sandbox& sandbox, const std::string& failure) {
    change(sandbox, RecordRelease{{.start = 1,
                                   .stop_reason = failure.empty() ? StopReason::kUser : StopReason::kNone,
                                   .failure = failure,
                                   .message = "",
                                   .restore_point = {},
                                   .at = clock_.now()}});
  }
  Process admit(const Sandbox& sandbox, const std::string& key = "") {
    const auto admission = sandboxes_.admit(
        sandbox, {.command = {"sleep", "1"}, .idempotency_key = key, .input_hash = key.empty() ? "" : "h"});
    EXPECT_TRUE(admission.has_value() && admission->process);
    return *admission->process;
  }
  std::optional<ProcessEnded> end_of(const Process& process) {
    return catalog_.process(process.admitted.uid)->ended;
  }
  void round() {
    const auto done = keeper_->round();
    EXPECT_TRUE(done.has_value()) << done.error().message;
  }

  std::filesystem::path directory_;
  std::unique_ptr<OutputStore> outputs_;
  std::vector<ProcessUid> asked_;
  bool node_answers_ = true;
  std::unique_ptr<ProcessKeeper> keeper_;
};

TEST_F(Processes, AreLostWithTheirMachineAtOnce) {
  const auto sandbox = make_running("a");
  const auto process = admit(sandbox);
  const OutputFrame frame{2, 0, "last words"};
  ASSERT_TRUE(outputs_->append({sandbox.uid, process.admitted.uid}, 0, std::span(&frame, 1)));
  release(sandbox, "NodeLost");
  round();
  const auto end = end_of(process);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->reason, "NodeLost");
  EXPECT_EQ(end->exit_code, 137);
  EXPECT_EQ(end->stderr_bytes, 10) << "what was kept until then";
  const OutputFrame late{1, 10, "x"};
  EXPECT_EQ(outputs_->append({sandbox.uid, process.admitted.uid}, 10, std::span(&late, 1)).error().reason,
            "OutputSealed");
}

TEST_F(Processes, OfACrashedContainerWaitForTheMachinesWord) {
  const auto sandbox = make_running("a");
  const auto silent = admit(sandbox), reported = admit(sandbox);
  release(sandbox, "Crashed");
  round();
  EXPECT_FALSE(end_of(silent));
  ASSERT_TRUE(batcher_.run(end_process(
      reported.admitted.uid,
      {"machine-1", 1, {.reason = "ParentStopped", .exit_code = 137, .ended_at = clock_.now()}})));
  clock_.advance(Seconds(31));
  round();
  EXPECT_EQ(end_of(silent)->reason, "NodeLost");
  EXPECT_EQ(end_of(reported)->reason, "ParentStopped") << "the first end stands";
}

TEST_F(Processes, EndWithTheirSandboxesStopWhateverCame) {
  const auto sandbox = make_running("a");
  const auto process = admit(sandbox);
  release(sandbox, "");
  change(sandbox, TriggerStart{Trigger::kStart});  // a newer start does not hide it
  clock_.advance(Seconds(29));
  round();
  EXPECT_FALSE(end_of(process));
  clock_.advance(Seconds(2));
  round();
  EXPECT_EQ(end_of(process)->reason, "ParentStopped");
  EXPECT_FALSE(*catalog_.busy(sandbox.uid));
}

TEST_F(Processes, EndWithTheirSandboxesDeletionAndTheirOutputGoes) {
  const auto sandbox = make_running("a");
  const auto process = admit(sandbox);
  const OutputFrame frame{1, 0, "x"};
  ASSERT_TRUE(outputs_->append({sandbox.uid, process.admitted.uid}, 0, std::span(&frame, 1)));
  ASSERT_TRUE(sandboxes_.remove(sandbox));
  release(sandbox, "");
  clock_.advance(Seconds(31));
  round();
  EXPECT_EQ(end_of(process)->reason, "ParentStopped");
  EXPECT_EQ(outputs_->sizes({sandbox.uid, process.admitted.uid})->end, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(Processes, TheMachineIsAskedOnceWhetherItHasWhatItWasHanded) {
  const auto sandbox = make_running("a");
  const auto process = admit(sandbox);
  round();
  EXPECT_TRUE(asked_.empty()) << "the hand-over term";
  clock_.advance(Seconds(11));
  node_answers_ = false;
  round();
  round();
  EXPECT_EQ(asked_.size(), 2u) << "until it answers";
  node_answers_ = true;
  round();
  round();
  EXPECT_EQ(asked_.size(), 3u);
  EXPECT_FALSE(end_of(process)) << "it has it, or reports that it never will";
  clock_.advance(std::chrono::minutes(11));  // past its timeout for sure
  round();
  EXPECT_EQ(asked_.size(), 4u);
}

TEST_F(Processes, AKeyRunsAgainWhatNeverReachedAMachine) {
  const auto sandbox = make_running("a");
  const auto first = admit(sandbox, "k");
  sandboxes_.abandon(first, "It was not taken on.");
  EXPECT_EQ(end_of(first)->reason, "StartFailed");
  const auto second = admit(sandbox, "k");
  EXPECT_NE(second.admitted.uid, first.admitted.uid);
  EXPECT_EQ(admit(sandbox, "k").admitted.uid, second.admitted.uid) << "a repeat joins it";
  sandboxes_.abandon(second, "Only one of two requests says so.");
  EXPECT_FALSE(end_of(second));
  ASSERT_TRUE(batcher_.run(
      end_process(second.admitted.uid, {"machine-1", 1, {.reason = "", .ended_at = clock_.now()}})));
  EXPECT_EQ(admit(sandbox, "k").admitted.uid, second.admitted.uid) << "it ran: never a second time";
}

}  // namespace
}  // namespace nodus::lifecycle
