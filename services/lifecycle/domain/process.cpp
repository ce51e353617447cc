#include "services/lifecycle/domain/process.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace nodus::lifecycle {

bool valid_end(const ProcessEnded& end) {
  static constexpr std::array<std::string_view, 9> kReasons = {
      "",         "NonZeroExit",         "Signaled",      "DeadlineExceeded", "StartFailed",
      "NodeLost", "OutputLimitExceeded", "ParentStopped", "Cancelled"};
  constexpr size_t kMostMessage = 4096;
  const bool named = std::ranges::find(kReasons, end.reason) != kReasons.end();
  const bool in_range = end.exit_code >= 0 && end.exit_code <= 255;
  const bool fits = end.reason.empty()            ? end.exit_code == 0
                    : end.reason == "NonZeroExit" ? end.exit_code != 0
                                                  : true;
  return named && in_range && fits && end.message.size() <= kMostMessage && end.stdout_bytes >= 0 &&
         end.stderr_bytes >= 0;
}

Result<std::vector<ProcessEvent>> ProcessAggregate::decide(const Process& p, const Command& command,
                                                           const Context&) {
  using Events = std::vector<ProcessEvent>;
  if (const auto* admit = std::get_if<AdmitProcess>(&command)) {
    if (!p.admitted.uid.empty()) return Events{};
    return Events{admit->admitted};
  }
  if (std::holds_alternative<RepeatProcess>(command)) {
    if (p.admitted.uid.empty()) return fail(Code::kNotFound, "NotFound", "There is no such Process.");
    if (p.ended || p.repeated) return Events{};
    return Events{ProcessRepeated{p.admitted.uid}};
  }
  if (const auto* abandon = std::get_if<AbandonProcess>(&command)) {
    // After a repeat nobody knows but the machine: it is asked (app/process_keeper.hpp).
    if (p.admitted.uid.empty() || p.ended || p.repeated) return Events{};
    return Events{ProcessEnded{.reason = "StartFailed",
                               .exit_code = 126,
                               .message = abandon->message,
                               .started_at = {},
                               .ended_at = abandon->at,
                               .never_reached = true}};
  }
  const auto& end = std::get<EndProcess>(command);
  const bool stranger = !end.machine.empty() && end.machine != p.admitted.machine;
  if (p.admitted.uid.empty() || stranger)
    return fail(Code::kNotFound, "NotFound", "There is no such Process.");
  if (end.epoch != p.admitted.epoch)
    return fail(Code::kConflict, "StaleEpoch", "The report names another start of the Sandbox.");
  if (!valid_end(end.ended))
    return fail(Code::kInvalid, "Invalid", "This is not an end that a command can have.");
  if (p.ended) return Events{};
  return Events{end.ended};
}

void ProcessAggregate::evolve(Process& p, const Event& event) {
  if (const auto* admitted = std::get_if<ProcessAdmitted>(&event)) p.admitted = *admitted;
  if (const auto* ended = std::get_if<ProcessEnded>(&event)) p.ended = *ended;
  if (std::holds_alternative<ProcessRepeated>(event)) p.repeated = true;
}

}  // namespace nodus::lifecycle
