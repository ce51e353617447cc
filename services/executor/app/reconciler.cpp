#include "services/executor/app/reconciler.hpp"

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"
#include "libs/telemetry/log.hpp"

namespace nodus::executor {

Reconciler::Reconciler(Host& host, ProcessService& processes, SnapshotStore& snapshots, SlotRecords& records,
                       ReconcilerOptions options)
    : host_(host),
      processes_(processes),
      snapshots_(snapshots),
      records_(records),
      options_(options),
      starts_(options.parallel_starts),
      work_(options.parallel_stops) {}

Reconciler::~Reconciler() {
  stop();
}

void Reconciler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  starts_.stop();
  work_.stop();
  host_.stop_watching();  // after the jobs, which watch
}

Result<void> Reconciler::recover() {
  auto records = records_.load();
  if (!records) return std::unexpected(records.error());
  if (auto swept = host_.sweep(*records); !swept) return swept;
  for (auto& record : *records) {
    const SlotKey key = record.order.key;
    const bool may_run = record.phase != Phase::kStopped && record.phase != Phase::kFailed;
    const bool alive = may_run && host_.alive(key);
    log::info("slot.recovered", {{"slot", key.text()}, {"alive", alive}});
    const std::lock_guard lock(mutex_);
    slots_[key] = Slot{.record = std::move(record), .alive = alive};
    kick(key);
  }
  work_.post([this] { refresh_activity(); }, options_.activity_every);
  return {};
}

void Reconciler::apply(DesiredState desired) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || (heard_ && desired.version < version_)) return;
  heard_ = true;
  version_ = desired.version;
  complete_ = desired.complete;
  orders_.clear();
  for (auto& order : desired.orders) orders_[order.key] = std::move(order);
  std::vector<SlotKey> keys;
  for (const auto& [key, order] : orders_) keys.push_back(key);
  for (const auto& [key, slot] : slots_)
    if (!orders_.contains(key)) keys.push_back(key);
  for (const auto& key : keys) kick(key);
}

Want Reconciler::want_of(const SlotKey& key) const {
  if (!heard_) return Want::kUnknown;
  const auto found = orders_.find(key);
  if (found == orders_.end()) return complete_ ? Want::kAbsent : Want::kUnknown;
  return found->second.stop ? Want::kStop : Want::kRun;
}

std::optional<Order> Reconciler::order_of(const SlotKey& key) const {
  const auto found = orders_.find(key);
  if (found == orders_.end()) return std::nullopt;
  return found->second;
}

void Reconciler::kick(const SlotKey& key) {
  if (stopping_) return;
  auto found = slots_.find(key);
  const bool known = found != slots_.end() && found->second.record;
  if (known && found->second.working) return;  // the job looks again when it ends
  if (found != slots_.end() && found->second.working) return;
  std::optional<Look> look;
  if (known) {
    const Slot& slot = found->second;
    look = Look{slot.record->phase, slot.alive, slot.opened, slot.declined};
  }
  const Step step = next_step(look, want_of(key), order_of(key));
  if (step == Step::kNone) return;
  Slot& slot = slots_[key];
  if (step == slot.failed_step && std::chrono::steady_clock::now() < slot.not_before)
    return;  // a timer is set
  slot.working = true;
  auto& pool = step == Step::kStart ? starts_ : work_;
  pool.post([this, key, step] { perform(key, step); });
}

void Reconciler::perform(const SlotKey& key, Step step) {
  Result<void> done;
  switch (step) {
    case Step::kNone:
      break;
    case Step::kStart:
      done = start(key);
      break;
    case Step::kAdopt:
      done = adopt(key);
      break;
    case Step::kStop:
      done = stop_slot(key);
      break;
    case Step::kResume: {
      auto record = record_of(key);
      record.phase = Phase::kRunning;
      put(record);
      break;
    }
    case Step::kDestroy:
    case Step::kForget:
      done = destroy(key);
      break;
    case Step::kConclude:
      done = conclude(key);
      break;
  }
  if (!done) log::warn("slot.step.failed", {{"slot", key.text()}, {"message", done.error().message}});

  const std::lock_guard lock(mutex_);
  auto found = slots_.find(key);
  if (found == slots_.end()) return;
  Slot& slot = found->second;
  slot.working = false;
  if (done) {
    slot.failed_step = Step::kNone;
    slot.delay = Millis(0);
    if (!slot.record) slots_.erase(found);
  } else {
    slot.failed_step = step;
    slot.delay = std::clamp(slot.delay * 2, options_.retry_first, options_.retry_last);
    const Millis wait = slot.delay + Millis(random_below(static_cast<uint64_t>(slot.delay.count()) / 2 + 1));
    slot.not_before = std::chrono::steady_clock::now() + wait;
    work_.post(
        [this, key] {
          const std::lock_guard again(mutex_);
          kick(key);
        },
        wait + Millis(1));
  }
  kick(key);
}

SlotRecord Reconciler::record_of(const SlotKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(key);
  CHECK(found != slots_.end() && found->second.record, "{}", key.text());
  return *found->second.record;
}

void Reconciler::put(const SlotRecord& record) {
  const std::lock_guard lock(mutex_);
  slots_[record.order.key].record = record;
  note_change();
}

void Reconciler::note_change() {
  ++changes_;
  changed_.notify_all();
}

void Reconciler::set_alive(const SlotKey& key, bool alive) {
  const std::lock_guard lock(mutex_);
  slots_[key].alive = alive;
}

void Reconciler::set_opened(const SlotKey& key, bool opened) {
  const std::lock_guard lock(mutex_);
  slots_[key].opened = opened;
}

void Reconciler::container_ended(const SlotKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(key);
  if (found == slots_.end()) return;
  found->second.alive = false;
  kick(key);
}

std::vector<SlotReport> Reconciler::reports() const {
  std::vector<SlotReport> reports;
  const std::lock_guard lock(mutex_);
  // What was heard and waits for its turn counts as begun: silence would mean that it is not here.
  for (const auto& [key, order] : orders_) {
    const auto found = slots_.find(key);
    if (found == slots_.end() || !found->second.record)
      reports.push_back({.key = key, .phase = order.stop ? Phase::kStopping : Phase::kStarting});
  }
  for (const auto& [key, slot] : slots_) {
    if (!slot.record) continue;
    std::optional<Instant> declined;
    if (slot.record->phase == Phase::kDeclined && slot.declined) declined = slot.declined->idle_since;
    reports.push_back({key, slot.record->phase, slot.record->failure, slot.record->message,
                       slot.record->saved, slot.activity, declined});
  }
  return reports;
}

void Reconciler::refresh_activity() {
  std::vector<SlotKey> keys;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, slot] : slots_)
      if (slot.opened) keys.push_back(key);
  }
  for (const auto& key : keys) {
    const auto activity = processes_.activity(key);
    const std::lock_guard lock(mutex_);
    if (const auto found = slots_.find(key); found != slots_.end()) found->second.activity = activity;
  }
  work_.post([this] { refresh_activity(); }, options_.activity_every);
}

int64_t Reconciler::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

uint64_t Reconciler::wait_for_change(uint64_t seen, Millis timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return changes_ != seen || stopping_; });
  return changes_;
}

}  // namespace nodus::executor
