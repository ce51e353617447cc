#include "services/executor/process/process_service.hpp"

namespace nodus::executor {

Processes::Processes(ProcessLimits limits, ReportOutbox& outbox, SlotProcesses::Changed changed)
    : limits_(limits), outbox_(outbox), changed_(std::move(changed)) {}

std::shared_ptr<SlotProcesses> Processes::find(const SlotKey& slot) const {
  std::lock_guard hold(mutex_);
  const auto found = slots_.find(slot);
  return found == slots_.end() ? nullptr : found->second;
}

Result<void> Processes::open(const SlotView& slot, Millis patience) {
  std::shared_ptr<SlotProcesses> processes;
  {
    std::lock_guard hold(mutex_);
    auto& entry = slots_[slot.key];
    if (!entry) entry = std::make_shared<SlotProcesses>(slot, limits_, outbox_, changed_);
    processes = entry;
  }
  return processes->open(patience);
}

void Processes::close_admission(const SlotKey& slot) {
  if (const auto processes = find(slot)) processes->close_admission();
}

void Processes::reopen_admission(const SlotKey& slot) {
  if (const auto processes = find(slot)) processes->reopen_admission();
}

Result<void> Processes::end_all(const SlotKey& slot, const std::string& reason, Millis patience) {
  const auto processes = find(slot);
  return processes ? processes->end_all(reason, patience) : Result<void>();
}

void Processes::close(const SlotKey& slot, const std::string& reason) {
  std::shared_ptr<SlotProcesses> processes;
  {
    std::lock_guard hold(mutex_);
    const auto found = slots_.find(slot);
    if (found == slots_.end()) return;
    processes = std::move(found->second);
    slots_.erase(found);
  }
  processes->close(reason);
}

Activity Processes::activity(const SlotKey& slot) const {
  const auto processes = find(slot);
  return processes ? processes->activity() : Activity{};
}

}  // namespace nodus::executor
