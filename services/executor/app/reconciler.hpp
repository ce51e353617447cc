// Brings the slots of this machine to what the scheduler wants. Level-triggered: each round looks at one
// slot, asks domain/plan what is next, and does it on a pool; one job a slot at a time.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "services/executor/app/host.hpp"
#include "services/executor/app/work_pool.hpp"
#include "services/executor/domain/plan.hpp"

namespace nodus::executor {

// The scheduler's answer: all that it wants here.
struct DesiredState {
  int64_t version = 0;
  bool complete = false;  // absence is an order to destroy
  std::vector<Order> orders;
};

struct SlotReport {
  SlotKey key;
  Phase phase = Phase::kStarting;
  std::string failure;
  std::string message;
  std::optional<RestorePoint> saved;
  Activity activity;
  std::optional<Instant> declined;  // with kDeclined: the idle_since of the stop that this answers
};

struct ReconcilerOptions {
  int parallel_starts = 4;
  int parallel_stops = 8;  // also adoptions and removals
  Millis helper_patience{15'000};
  Millis end_patience{10'000};
  Millis retry_first{500};  // doubled each time, jittered
  Millis retry_last{30'000};
  Millis activity_every{5'000};  // how old the activity in a report may be
};

class Reconciler {
 public:
  Reconciler(Host& host, ProcessService& processes, SnapshotStore& snapshots, SlotRecords& records,
             ReconcilerOptions options);
  ~Reconciler();

  // Once, before anything else: reads the records, adopts what runs, goes on with stops.
  Result<void> recover();
  void apply(DesiredState desired);  // an older version than the last is ignored
  std::vector<SlotReport> reports() const;
  int64_t version() const;  // of the last state applied; 0: none

  // Counts changes of what reports() says. Returns the newest count when it is not `seen` any more, or at the
  // timeout or stop().
  uint64_t wait_for_change(uint64_t seen, Millis timeout) const;
  void stop();  // waits for the jobs under way; containers go on

 private:
  struct Slot {
    std::optional<SlotRecord> record;
    bool alive = false;
    bool opened = false;
    bool working = false;
    Activity activity;              // as of not long ago
    std::optional<Order> declined;  // with kDeclined
    Step failed_step = Step::kNone;
    std::chrono::steady_clock::time_point not_before;
    Millis delay{0};
  };

  // All with mutex_ held.
  Want want_of(const SlotKey& key) const;
  std::optional<Order> order_of(const SlotKey& key) const;
  void kick(const SlotKey& key);
  void note_change();

  // Jobs, without the lock. An error is tried again later.
  void perform(const SlotKey& key, Step step);
  Result<void> start(const SlotKey& key);
  Result<void> launch(SlotRecord& record);
  Result<void> adopt(const SlotKey& key);
  Result<void> stop_slot(const SlotKey& key);
  Result<bool> admit_stop(const SlotKey& key, SlotRecord& record);
  Result<void> finish_stop(const SlotKey& key, SlotRecord record);
  Result<void> save(SlotRecord& record);
  Result<void> give_up_saving(SlotRecord& record, const Error& why);
  Result<void> destroy(const SlotKey& key);
  Result<void> conclude(const SlotKey& key);

  SlotRecord record_of(const SlotKey& key) const;
  void put(const SlotRecord& record);  // and tells whoever waits for a change
  void container_ended(const SlotKey& key);
  void refresh_activity();  // asks the helpers, so it takes its time and holds no lock
  void set_alive(const SlotKey& key, bool alive);
  void set_opened(const SlotKey& key, bool opened);

  Host& host_;
  ProcessService& processes_;
  SnapshotStore& snapshots_;
  SlotRecords& records_;
  const ReconcilerOptions options_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t changes_ = 0;
  bool stopping_ = false;
  bool heard_ = false;
  bool complete_ = false;
  int64_t version_ = 0;
  std::map<SlotKey, Order> orders_;
  std::map<SlotKey, Slot> slots_;

  WorkPool starts_;
  WorkPool work_;
};

}  // namespace nodus::executor
