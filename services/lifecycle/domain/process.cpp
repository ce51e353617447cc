#include "services/lifecycle/domain/process.hpp"

namespace nodus::lifecycle {

Result<std::vector<ProcessEvent>> ProcessAggregate::decide(const Process& p, const Command& command,
                                                           const Context&) {
  using Events = std::vector<ProcessEvent>;
  if (const auto* admit = std::get_if<AdmitProcess>(&command)) {
    if (!p.admitted.uid.empty()) return Events{};
    return Events{admit->admitted};
  }
  const auto& end = std::get<EndProcess>(command);
  const bool stranger = !end.machine.empty() && end.machine != p.admitted.machine;
  if (p.admitted.uid.empty() || stranger)
    return fail(Code::kNotFound, "NotFound", "There is no such Process.");
  if (end.epoch != p.admitted.epoch)
    return fail(Code::kConflict, "StaleEpoch", "The report names another start of the Sandbox.");
  if (p.ended) return Events{};
  return Events{end.ended};
}

void ProcessAggregate::evolve(Process& p, const Event& event) {
  if (const auto* admitted = std::get_if<ProcessAdmitted>(&event)) p.admitted = *admitted;
  if (const auto* ended = std::get_if<ProcessEnded>(&event)) p.ended = *ended;
}

}  // namespace nodus::lifecycle
