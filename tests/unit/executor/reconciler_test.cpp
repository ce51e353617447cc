// The reconciler on a machine of values.
#include "services/executor/app/reconciler.hpp"

#include <gtest/gtest.h>

namespace nodus::executor {
namespace {

class FullHost final : public Host {
 public:
  Result<std::filesystem::path> prepare(const SlotRecord&) override { return used(); }
  Result<void> launch(const SlotRecord&) override { return used(); }
  Result<void> limit_cpu(const SlotRecord&) override { return used(); }
  Result<SlotView> view(const SlotRecord&) override { return used(); }
  bool alive(const SlotKey&) override { return false; }
  Result<void> kill(const SlotKey&) override { return {}; }
  Result<std::filesystem::path> upper(const SlotRecord&) override { return used(); }
  Result<void> teardown(const SlotRecord&) override { return {}; }
  void watch(const SlotKey&, std::function<void()>) override {}
  void stop_watching() override {}
  Result<int> take_network_index(const std::vector<int>&) override {
    return fail(Code::kUnavailable, "StartFailed", "Full.");
  }
  Result<void> sweep(const std::vector<SlotRecord>&) override { return {}; }

 private:
  static std::unexpected<Error> used() {
    ADD_FAILURE() << "a slot without a network is not made";
    return fail(Code::kInternal, "Internal", "No.");
  }
};

class NoProcesses final : public ProcessService {
 public:
  Result<void> open(const SlotView&, Millis) override { return {}; }
  void close_admission(const SlotKey&) override {}
  void reopen_admission(const SlotKey&) override {}
  Result<void> end_all(const SlotKey&, const std::string&, Millis) override { return {}; }
  void close(const SlotKey&, const std::string&) override {}
  Activity activity(const SlotKey&) const override { return {}; }
};

class NoSnapshots final : public SnapshotStore {
 public:
  Result<RestorePoint> save(const std::filesystem::path&, const std::string&) override {
    return RestorePoint{};
  }
  Result<void> restore(const RestorePoint&, const std::filesystem::path&) override { return {}; }
};

class MemoryRecords final : public SlotRecords {
 public:
  explicit MemoryRecords(std::vector<SlotRecord> kept) : kept_(std::move(kept)) {}
  Result<void> create(const SlotRecord&) override { return {}; }
  Result<void> save_state(const SlotRecord&, bool) override { return {}; }
  Result<void> remove(const SlotKey&) override { return {}; }
  Result<std::vector<SlotRecord>> load() override { return kept_; }

 private:
  std::vector<SlotRecord> kept_;
};

// Also when nodusd ended in the middle of it and finds the record again.
TEST(Reconciler, AStartWithoutAFreeNetworkFails) {
  const Order order{.key = {SandboxUid("u"), 1}, .start = 1};
  for (const bool again : {false, true}) {
    FullHost host;
    NoProcesses processes;
    NoSnapshots snapshots;
    MemoryRecords records(again ? std::vector{SlotRecord{.order = order}} : std::vector<SlotRecord>{});
    Reconciler reconciler(host, processes, snapshots, records, {});
    ASSERT_TRUE(reconciler.recover());
    reconciler.apply({1, true, {order}});
    std::vector<SlotReport> reports;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (uint64_t seen = 0; std::chrono::steady_clock::now() < until;) {
      seen = reconciler.wait_for_change(seen, Millis(100));
      reports = reconciler.reports();
      if (!reports.empty() && reports[0].phase == Phase::kFailed) break;
    }
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(static_cast<int>(reports[0].phase), static_cast<int>(Phase::kFailed));
    EXPECT_EQ(reports[0].failure, "StartFailed");
    EXPECT_EQ(reports[0].message, "The machine has no free network address.");
  }
}

}  // namespace
}  // namespace nodus::executor
