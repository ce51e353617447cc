// What lifecycle hears from the others: messages and node reports → Works.
#pragma once

#include <optional>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/bus/bus.hpp"

namespace nodus::lifecycle {

Result<std::optional<eventlog::Work>> from_scheduler(const bus::Message& message, Instant now);
Result<std::optional<eventlog::Work>> from_metering(const bus::Message& message, Instant now);

// POST /node/v1/process-reports: one Work a report. BadRequest when it does not parse or names more than
// 1,024.
struct ProcessReportBatch {
  std::string machine;
  std::vector<eventlog::Work> works;
};
Result<ProcessReportBatch> from_process_reports(const std::string& body);

}  // namespace nodus::lifecycle
