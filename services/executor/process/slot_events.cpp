// The half of SlotProcesses that listens to the helper and to the clock.
#include <signal.h>

#include <algorithm>

#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"
#include "services/executor/process/slot_processes.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
using helper::Kind;
using helper::Writer;
namespace {
constexpr Millis kLongest{60'000};
constexpr Millis kOfferAgain{20};  // to a helper whose queue was full
// Output is acknowledged when so much of it is kept here: each word to the helper is a turn of its loop. What
// a thousand commands leave unacknowledged is less than the helper keeps for all (kKeptByAll).
constexpr uint64_t kAckBytes = 8 * 1024;
constexpr int kAckFrames = 32;
constexpr uint64_t kImpossible = uint64_t{1} << 60;  // an offset that no helper of ours sends

Instant instant_before(const Clock& clock, Millis age) {
  return clock.now() - age;
}
}  // namespace

SlotProcesses::CommandPtr SlotProcesses::find(std::string_view uid) const {
  const auto found = commands_.find(uid);
  return found == commands_.end() ? nullptr : found->second;
}

Result<void> SlotProcesses::save(const Command& command) const {
  return write_small_file(record_path(command.record.uid), encode_record(command.record));
}

// The report first: a crash in between repeats the end, it does not forget it.
bool SlotProcesses::finish(Command& command, CommandEnd end) {
  if (failpoint("process.before_report") || !outbox_.put(report_of(command, end), kept_at(command))) {
    log::error("process.end_not_recorded",
               {{"process", command.record.uid}, {"sandbox", slot_.key.sandbox.str()}});
    command.late_end = std::move(end);
    return false;
  }
  failpoint("process.reported");
  settle(command, std::move(end));
  return true;
}

EndReport SlotProcesses::report_of(const Command& command, const CommandEnd& end) const {
  const auto& record = command.record;
  const auto written = [&](int stream) {
    return command.output ? static_cast<int64_t>(command.output->bytes_of(stream)) : 0;
  };
  return {.process_uid = record.uid,
          .sandbox_uid = slot_.key.sandbox.str(),
          .epoch = slot_.key.epoch,
          .reason = end.reason,
          .exit_code = end.exit_code,
          .message = end.message,
          .started_at = record.started_at,
          .ended_at = end.at,
          .stdout_bytes = written(1),
          .stderr_bytes = written(2),
          .never_reached = command.refused};
}

fs::path SlotProcesses::kept_at(const Command& command) const {
  return command.output ? output_path(command.record.uid) : fs::path();
}

void SlotProcesses::settle(Command& command, CommandEnd end) {
  auto& record = command.record;
  record.ended = true;
  record.end = std::move(end);
  command.late_end.reset();
  command.spawn_frame.clear();
  (void)save(command);
  --live_;
  live_terminals_ -= record.terminal;
  make_room_for_commands();
  command.input.clear();
  last_activity_ = clock_.now();
  ended_.push_back(record.uid);
  if (command.output) {
    kept_output_ += command.output->file_size();
    live_output_ -= command.output->file_size();
  }
  prune();
  settled_.notify_all();
  changed_(record.uid);
}

void SlotProcesses::forget(const std::string& uid) {
  if (client_) client_->send(Writer(Kind::kForget).text(uid).take());
}

// Old output goes first, then old records. Whoever still reads a file keeps it open.
void SlotProcesses::prune() {
  std::error_code ignored;
  for (size_t i = 0; i < ended_.size() && kept_output_ > limits_.kept_output_bytes; ++i) {
    auto& command = *commands_.at(ended_[i]);
    if (!command.output) continue;
    kept_output_ -= std::min(kept_output_, command.output->file_size());
    command.output.reset();
    fs::remove(output_path(ended_[i]), ignored);
  }
  while (ended_.size() > limits_.kept_records) {
    const std::string uid = std::move(ended_.front());
    ended_.pop_front();
    if (const auto& output = commands_.at(uid)->output)
      kept_output_ -= std::min(kept_output_, output->file_size());
    commands_.erase(uid);
    fs::remove(output_path(uid), ignored);
    fs::remove(record_path(uid), ignored);
  }
}

void SlotProcesses::connected(const std::string&, const std::vector<HelperCommand>& known) {
  std::lock_guard hold(mutex_);
  if (!client_) return;
  const auto is_known = [&](const std::string& uid) {
    return std::any_of(known.begin(), known.end(), [&](const auto& each) { return each.uid == uid; });
  };
  for (const auto& each : known) {
    const auto command = find(each.uid);
    if (!command) client_->send(Writer(Kind::kKill).text(each.uid).u8(SIGKILL).take());
    // One that nobody knows here is listened to until it ends, and then forgotten.
    client_->send(Writer(Kind::kAttach)
                      .text(each.uid)
                      .u64(!command           ? each.end
                           : !command->output ? each.end
                                              : std::max(each.base, command->output->end()))
                      .take());
    if (command && !command->record.ended) resume_input(*command, each.stdin_end);
  }
  for (auto& [uid, command] : commands_) {
    if (command->record.ended || is_known(uid)) continue;
    if (!command->spawn_frame.empty() && command->record.kill_reason.empty()) {
      command->sent = client_->offer(command->spawn_frame);
      command->input_sent = command->input_base;
      push_input(*command);
      if (!command->sent) client_->wake();
      continue;
    }
    const bool began = command->record.started_at != Instant{};
    const auto& why = command->record.kill_reason;
    finish(*command, {!why.empty() ? why
                      : began      ? "ParentStopped"
                                   : "StartFailed",
                      began ? 137 : 126, "The Sandbox's helper does not know the command.", clock_.now()});
  }
}

void SlotProcesses::started(std::string_view uid, Millis age) {
  std::lock_guard hold(mutex_);
  const auto command = find(uid);
  if (!command || command->record.ended) return;
  command->spawn_frame.clear();
  if (command->record.started_at != Instant{}) return;
  command->record.started_at = instant_before(clock_, age);
  command->record.deadline_boot = clock_.boot() - age + command->record.timeout;
  begun_.push_back(command);
}

// The output that came with the start goes first, and an end records both.
void SlotProcesses::caught_up() {
  if (begun_.empty()) return;
  std::lock_guard hold(mutex_);
  for (const auto& command : begun_)
    if (!command->record.ended) (void)save(*command);
  begun_.clear();
}

void SlotProcesses::output(std::string_view uid, int stream, uint64_t offset, std::string_view data) {
  CommandPtr command;
  HelperClient* client;  // ends only after this thread, which is its own
  {
    std::lock_guard hold(mutex_);
    command = find(uid);
    client = client_.get();
  }
  if (!client) return;
  if (offset > kImpossible) return;
  const uint64_t end = offset + data.size();
  failpoint("process.output");
  // The file is written by this thread alone, so without the lock. Headers count too: output in single bytes
  // may not take many times its size on the node.
  if (command && command->output && !command->cut) {
    auto& file = *command->output;
    if (end > limits_.output_bytes)
      data = data.substr(0, limits_.output_bytes - std::min(limits_.output_bytes, offset));
    const uint64_t before = file.file_size();
    const bool kept = file.append(stream, offset, data).has_value();
    outbox_.grew({command->record.uid, slot_.key.sandbox.str(), slot_.key.epoch}, command->output);
    const uint64_t live = live_output_ += file.file_size() - before;
    if (!kept || end > limits_.output_bytes || file.file_size() > 2 * limits_.output_bytes + (1 << 20) ||
        live > limits_.live_output_bytes) {
      std::lock_guard hold(mutex_);
      command->cut = true;
      order_kill(*command, "OutputLimitExceeded");
    }
  }
  if (!command || ++command->unsaid_frames >= kAckFrames || end >= command->said + kAckBytes) {
    client->send(Writer(Kind::kAck).text(uid).u64(end).take());
    if (command) command->said = end, command->unsaid_frames = 0;
  }
  if (command) changed_(command->record.uid);
}

void SlotProcesses::ended(std::string_view uid, const HelperEnd& end) {
  std::lock_guard hold(mutex_);
  const auto command = find(uid);
  const bool known = command && !command->record.ended;
  if (known && !finish(*command, judge_end(command->record, end, instant_before(clock_, end.age)))) {
    client_ ? client_->wake() : void();
    return;  // the helper keeps it until it is recorded
  }
  forget(std::string(uid));
}

void SlotProcesses::condemn(Command& command, const std::string& reason) {
  command.kill_due = clock_.boot() + limits_.kill_again;
  if (!command.record.kill_reason.empty()) return;
  command.record.kill_reason = reason;
  (void)save(command);
}

void SlotProcesses::order_kill(Command& command, const std::string& reason) {
  if (command.record.ended) return;
  condemn(command, reason);
  send_kill(command);
}

void SlotProcesses::send_kill(Command& command) {
  command.kill_due = clock_.boot() + limits_.kill_again;
  if (client_) {
    client_->send(Writer(Kind::kKill).text(command.record.uid).u8(SIGKILL).take());
    client_->wake();
  }
}

void SlotProcesses::offer(Command& command) {
  const auto& why = command.record.kill_reason;
  if (!why.empty())
    finish(command,
           {why, 126, "The command was ended before the Sandbox had room to start it.", clock_.now()});
  else if (client_)
    command.sent = client_->offer(command.spawn_frame);
}

Millis SlotProcesses::on_time() {
  std::lock_guard hold(mutex_);
  const Micros now = clock_.boot();
  Micros next = now + kLongest;
  for (auto& [uid, command] : commands_) {
    if (command->record.ended) continue;
    if (const auto late = command->late_end) {
      if (finish(*command, CommandEnd(*late))) forget(uid);
      next = std::min<Micros>(next, now + Seconds(1));
      continue;
    }
    if (command->record.kill_reason.empty()) {
      if (now >= command->record.deadline_boot) order_kill(*command, "DeadlineExceeded");
    } else if (now >= command->kill_due) {
      send_kill(*command);
    }
    if (unsent(*command)) offer(*command);
    if (input_waits(*command)) push_input(*command);
    if (command->record.ended) continue;
    next = std::min(next,
                    command->record.kill_reason.empty() ? command->record.deadline_boot : command->kill_due);
    if (unsent(*command) || input_waits(*command)) next = std::min<Micros>(next, now + kOfferAgain);
  }
  return std::chrono::ceil<Millis>(std::max(next - now, Micros(0)));
}

}  // namespace nodus::executor
