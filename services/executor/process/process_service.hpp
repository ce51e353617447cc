// The slots whose containers run, by Sandbox and epoch. Implements what the reconciler needs of commands.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "services/executor/process/slot_processes.hpp"

namespace nodus::executor {

class Processes final : public ProcessService {
 public:
  // `changed` is told of every command that has new output or has ended; it never blocks.
  Processes(ProcessLimits limits, ReportOutbox& outbox, SlotProcesses::Changed changed);

  Result<void> open(const SlotView& slot, Millis patience) override;
  void close_admission(const SlotKey& slot) override;
  void reopen_admission(const SlotKey& slot) override;
  Result<void> end_all(const SlotKey& slot, const std::string& reason, Millis patience) override;
  void close(const SlotKey& slot, const std::string& reason) override;
  Activity activity(const SlotKey& slot) const override;

  std::shared_ptr<SlotProcesses> find(const SlotKey& slot) const;  // null: not here

 private:
  const ProcessLimits limits_;
  ReportOutbox& outbox_;
  const SlotProcesses::Changed changed_;
  mutable std::mutex mutex_;
  std::map<SlotKey, std::shared_ptr<SlotProcesses>> slots_;
};

}  // namespace nodus::executor
