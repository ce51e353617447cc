// The jobs of the reconciler: start, adopt, stop, destroy. Each may be cut off at any point and done again.
#include "libs/base/check.hpp"
#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"
#include "services/executor/app/reconciler.hpp"
#include "services/executor/app/step_timer.hpp"

namespace nodus::executor {

static constexpr const char* kParentStopped = "ParentStopped";

// Sentences made for those who use Sandboxes pass; the words of system calls and tools name paths of the
// machine and stay in its log.
static std::string words_for_tenant(const Error& error) {
  for (const char* plain : {"StartFailed", "SnapshotFailed", "HelperSilent"})
    if (error.reason == plain) return error.message;
  return "The machine could not make the Sandbox ready; its operator finds the cause in the node's log.";
}

Result<void> Reconciler::start(const SlotKey& key) {
  SlotRecord record;
  bool half_done = false;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[key];
    half_done = slot.record.has_value();
    if (half_done) {
      record = *slot.record;
    } else {
      const auto order = order_of(key);
      if (!order || order->stop) return {};  // taken back meanwhile
      std::vector<int> used;
      for (const auto& [other, entry] : slots_)
        if (entry.record) used.push_back(entry.record->network_index);
      const auto index = host_.take_network_index(used);
      record = SlotRecord{.order = *order, .network_index = index.value_or(kNoNetwork)};
      slot.record = record;
      note_change();
    }
  }
  Result<void> done;
  if (half_done) {
    // Something of it may be there: begin with nothing. A container left alive but silent ends here.
    if (done = host_.kill(key); done) done = host_.teardown(record);
    if (!done) return done;
  }
  StepTimer timer;
  done = records_.create(record);
  timer.done("intent");
  failpoint("node.after_intent");
  if (done && record.network_index == kNoNetwork)
    done = fail(Code::kUnavailable, "StartFailed", "The machine has no free network address.");
  if (done) done = launch(record);
  if (done) return {};
  record.failure = "StartFailed";
  record.message = words_for_tenant(done.error());
  record.phase = Phase::kStopping;
  log::warn("slot.start.failed", {{"slot", key.text()}, {"message", done.error().message}});
  put(record);
  return finish_stop(key, record);
}

Result<void> Reconciler::launch(SlotRecord& record) {
  const SlotKey key = record.order.key;
  StepTimer timer;
  auto upper = host_.prepare(record);
  if (!upper) return std::unexpected(upper.error());
  timer.done("prepare");
  if (record.order.restore_point) {
    if (auto restored = snapshots_.restore(*record.order.restore_point, *upper); !restored) return restored;
    timer.done("restore");
  }
  failpoint("node.before_launch");
  if (auto launched = host_.launch(record); !launched) return launched;
  timer.done("launch");
  failpoint("node.after_launch");
  set_alive(key, true);
  host_.watch(key, [this, key] { container_ended(key); });
  if (auto limited = host_.limit_cpu(record); !limited) return limited;
  auto view = host_.view(record);
  if (!view) return std::unexpected(view.error());
  if (auto opened = processes_.open(*view, options_.helper_patience); !opened) return opened;
  timer.done("helper");
  set_opened(key, true);
  record.phase = Phase::kRunning;
  record.ran = true;
  if (auto saved = records_.save_state(record, false); !saved) return saved;
  put(record);
  log::info("slot.running", {{"slot", key.text()}, {"steps_ms", timer.text()}});
  return {};
}

Result<void> Reconciler::adopt(const SlotKey& key) {
  auto record = record_of(key);
  host_.watch(key, [this, key] { container_ended(key); });
  auto view = host_.view(record);
  if (auto limited = host_.limit_cpu(record); !limited) view = std::unexpected(limited.error());
  auto opened = view ? processes_.open(*view, options_.helper_patience) : std::unexpected(view.error());
  if (!opened) {
    log::warn("slot.adopt.failed", {{"slot", key.text()}, {"message", opened.error().message}});
    set_alive(key, false);  // the next look stops it, or starts it again
    return {};
  }
  set_opened(key, true);
  if (record.phase == Phase::kStarting) record.phase = Phase::kRunning;
  record.ran = true;
  if (auto saved = records_.save_state(record, false); !saved) return saved;
  put(record);
  log::info("slot.adopted", {{"slot", key.text()}});
  return {};
}

// False: it was used since, and goes on.
Result<bool> Reconciler::admit_stop(const SlotKey& key, SlotRecord& record) {
  bool crashed = false;
  bool opened = false;
  std::optional<Order> order;
  {
    const std::lock_guard lock(mutex_);
    const Slot& slot = slots_[key];
    order = order_of(key);
    opened = slot.opened;
    crashed = !slot.alive && (!order || !order->stop);
  }
  if (record.phase == Phase::kStopping) return true;
  if (opened) processes_.close_admission(key);
  if (order && order->stop && order->stop_reason == StopReason::kIdle && opened) {
    const auto activity = processes_.activity(key);
    if (!idle_holds(activity, order->idle_since)) {
      processes_.reopen_admission(key);
      record.phase = Phase::kDeclined;
      const std::lock_guard lock(mutex_);
      Slot& slot = slots_[key];
      slot.record = record;
      slot.activity = activity;
      slot.declined = order;
      note_change();
      return false;
    }
  }
  if (crashed && record.ran) {
    record.failure = "Crashed";
    record.message = "The container ended by itself.";
  }
  record.phase = Phase::kStopping;
  if (auto saved = records_.save_state(record, false); !saved) return std::unexpected(saved.error());
  put(record);
  return true;
}

Result<void> Reconciler::stop_slot(const SlotKey& key) {
  auto record = record_of(key);
  auto admitted = admit_stop(key, record);
  if (!admitted) return std::unexpected(admitted.error());
  if (!*admitted) return {};
  bool opened = false;
  {
    const std::lock_guard lock(mutex_);
    opened = slots_[key].opened && slots_[key].alive;
    if (const auto order = order_of(key); order && order->stop && order->stop_reason == StopReason::kDelete)
      record.discard = true;
  }
  if (opened)
    if (auto ended = processes_.end_all(key, kParentStopped, options_.end_patience); !ended)
      log::warn("slot.end.failed", {{"slot", key.text()}, {"message", ended.error().message}});
  failpoint("node.before_kill");
  return finish_stop(key, std::move(record));
}

Result<void> Reconciler::finish_stop(const SlotKey& key, SlotRecord record) {
  StepTimer timer;
  if (auto killed = host_.kill(key); !killed) return killed;
  processes_.close(key, kParentStopped);
  set_alive(key, false);
  set_opened(key, false);
  timer.done("kill");
  if (record.ran && !record.order.ephemeral && !record.discard && !record.saved) {
    auto saved = save(record);
    if (!saved && saved.error().reason == kCannotBeSaved) saved = give_up_saving(record, saved.error());
    if (!saved) return saved;
    timer.done("save");
  }
  failpoint("node.before_teardown");
  if (auto gone = host_.teardown(record); !gone) return gone;
  timer.done("teardown");
  record.phase = record.failure.empty() ? Phase::kStopped : Phase::kFailed;
  if (auto saved = records_.save_state(record, true); !saved) return saved;
  put(record);
  log::info("slot.stopped", {{"slot", key.text()}, {"failure", record.failure}, {"steps_ms", timer.text()}});
  return {};
}

// What can never be saved would hold its room, and be paid for, for ever.
Result<void> Reconciler::give_up_saving(SlotRecord& record, const Error& why) {
  record.discard = true;
  if (!record.message.empty()) record.message += " ";
  record.message += "The files of this run were not saved";
  record.message += record.order.restore_point ? "; the last restore point stays. " : ". ";
  record.message += why.message;
  log::error("slot.save.refused", {{"slot", record.order.key.text()}, {"message", why.message}});
  auto kept = records_.save_state(record, true);
  if (kept) put(record);
  return kept;
}

// A failure that may pass loses nothing: the disk stays, the slot stays Stopping, and it is tried again.
Result<void> Reconciler::save(SlotRecord& record) {
  const Order& order = record.order;
  auto upper = host_.upper(record);
  if (!upper) return std::unexpected(upper.error());
  const std::string object = order.org + "/" + order.key.sandbox.str() + "/" + std::to_string(order.start) +
                             "/" + std::to_string(order.key.epoch) + "/1";
  failpoint("node.before_save");
  auto saved = snapshots_.save(*upper, object);
  if (!saved) return std::unexpected(saved.error());
  failpoint("node.after_save");
  record.saved = *saved;
  if (auto kept = records_.save_state(record, true); !kept) return kept;
  put(record);
  return {};
}

Result<void> Reconciler::destroy(const SlotKey& key) {
  auto record = record_of(key);
  processes_.close_admission(key);
  if (auto killed = host_.kill(key); !killed) return killed;
  processes_.close(key, kParentStopped);
  set_alive(key, false);
  set_opened(key, false);
  if (auto gone = host_.teardown(record); !gone) return gone;
  if (auto removed = records_.remove(key); !removed) return removed;
  log::info("slot.forgotten", {{"slot", key.text()}});
  const std::lock_guard lock(mutex_);
  slots_[key].record.reset();
  note_change();
  return {};
}

Result<void> Reconciler::conclude(const SlotKey& key) {
  SlotRecord record;
  {
    const std::lock_guard lock(mutex_);
    const auto order = order_of(key);
    if (!order) return {};
    record = SlotRecord{.order = *order, .phase = Phase::kStopped};
  }
  if (auto created = records_.create(record); !created) return created;
  if (auto saved = records_.save_state(record, true); !saved) return saved;
  put(record);
  return {};
}

}  // namespace nodus::executor
