// The commands of an operator: `nodus-scheduler machines [lost]`, `parked list|replay|skip`. Each answers
// what to print.
#pragma once

#include "services/scheduler/config.hpp"

namespace nodus::scheduler {

Result<std::string> list_machines(const Config& config, const Clock& clock);
// Only for a machine that is destroyed or cut off: releases what it held, as of its last report. Refused
// while its lease lasts (MachineIsLive), unless forced. May be repeated, also when it broke off.
Result<std::string> lose_machine(const Config& config, const Clock& clock, const std::string& machine,
                                 bool force);
Result<std::string> list_parked(const Config& config);
Result<std::string> replay_parked(const Config& config, const Clock& clock, const std::string& topic,
                                  const std::string& stream);
Result<std::string> skip_parked(const Config& config, const std::string& topic, const std::string& stream);

}  // namespace nodus::scheduler
