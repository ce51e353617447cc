// The half of SlotProcesses that speaks to a running command: its stdin, its terminal, signals, cancel.
#include <signal.h>

#include <algorithm>

#include "services/executor/process/slot_processes.hpp"

namespace nodus::executor {
using helper::Kind;
using helper::Writer;

Result<SlotProcesses::CommandPtr> SlotProcesses::running(const std::string& uid) const {
  auto command = find(uid);
  if (!command) return fail(Code::kNotFound, "ProcessUnknown", "The node does not know the command.");
  if (command->record.ended) return fail(Code::kConflict, "ProcessEnded", "The command has ended.");
  return command;
}

Result<size_t> SlotProcesses::write_stdin(const std::string& uid, std::string_view data, bool last) {
  std::lock_guard hold(mutex_);
  const auto command = find(uid);
  if (!command) return fail(Code::kNotFound, "ProcessUnknown", "The node does not know the command.");
  if (command->record.ended || !command->record.stdin_open) return data.size();
  const size_t room = helper::kStdinWindow - std::min(helper::kStdinWindow, command->input.size());
  const size_t size = std::min(room, data.size());
  command->input.append(data.substr(0, size));
  if (last && size == data.size()) {
    command->record.stdin_open = false;
    (void)save(*command);
  }
  if (command->record.terminal) last_activity_ = clock_.now();
  push_input(*command);
  return size;
}

bool SlotProcesses::input_waits(const Command& command) const {
  const bool unsent_bytes = command.input_sent < command.input_base + command.input.size();
  return !unsent(command) && (unsent_bytes || (!command.record.stdin_open && !command.input_end_sent));
}

// With mutex_ held. What finds no room is sent by on_time().
void SlotProcesses::push_input(Command& command) {
  if (!client_ || !input_waits(command)) return;
  const std::string_view data =
      std::string_view(command.input).substr(command.input_sent - command.input_base);
  const bool last = !command.record.stdin_open;
  const bool sent = client_->offer(
      Writer(Kind::kStdin).text(command.record.uid).u64(command.input_sent).text(data).u8(last).take());
  if (!sent) return client_->wake();
  command.input_sent += data.size();
  command.input_end_sent = last;
}

// After a reconnect: what the helper has not got is sent again. A restarted nodusd knows nothing of it; what
// it had taken from a client and not handed on is lost, as it is when a client's connection breaks.
void SlotProcesses::resume_input(Command& command, uint64_t helper_has) {
  if (helper_has < command.input_base || helper_has > command.input_base + command.input.size()) {
    command.input.clear();
    command.input_base = helper_has;
  }
  command.input_sent = helper_has;
  command.input_end_sent = false;
  push_input(command);
}

void SlotProcesses::taken(std::string_view uid, uint64_t offset) {
  std::string key;
  {
    std::lock_guard hold(mutex_);
    const auto command = find(uid);
    if (!command || command->record.ended || offset <= command->input_base) return;
    const size_t size = std::min<uint64_t>(offset - command->input_base, command->input.size());
    command->input.erase(0, size);
    command->input_base += size;
    command->input_sent = std::max(command->input_sent, command->input_base);
    key = command->record.uid;
  }
  changed_(key);
}

Result<void> SlotProcesses::resize(const std::string& uid, uint16_t rows, uint16_t columns) {
  std::lock_guard hold(mutex_);
  auto command = running(uid);
  if (!command) return std::unexpected(command.error());
  if (client_ && (*command)->record.terminal)
    client_->send(Writer(Kind::kResize).text(uid).u32(rows).u32(columns).take());
  return {};
}

Result<void> SlotProcesses::signal(const std::string& uid, int signal) {
  std::lock_guard hold(mutex_);
  auto command = running(uid);
  if (!command) return std::unexpected(command.error());
  if (client_) client_->send(Writer(Kind::kSignal).text(uid).u8(static_cast<uint8_t>(signal)).take());
  return {};
}

Result<void> SlotProcesses::cancel(const std::string& uid) {
  std::lock_guard hold(mutex_);
  auto command = running(uid);
  if (!command) return std::unexpected(command.error());
  order_kill(**command, "Cancelled");
  return {};
}

}  // namespace nodus::executor
