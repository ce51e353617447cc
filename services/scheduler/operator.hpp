// The commands of an operator: `nodus-scheduler machines`, `parked list|replay|skip`. Each answers what to
// print.
#pragma once

#include "services/scheduler/config.hpp"

namespace nodus::scheduler {

Result<std::string> list_machines(const Config& config, const Clock& clock);
Result<std::string> list_parked(const Config& config);
Result<std::string> replay_parked(const Config& config, const Clock& clock, const std::string& topic,
                                  const std::string& stream);
Result<std::string> skip_parked(const Config& config, const std::string& topic, const std::string& stream);

}  // namespace nodus::scheduler
