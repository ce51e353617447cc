// The parts of metering in the order they start, and the commands of its binary. Each returns an exit code:
// 0, 2 for a missing dependency, 1 for anything else (a fault found by the audit, too).
#pragma once

#include <string>
#include <vector>

#include "services/metering/adapters/audit.hpp"
#include "services/metering/config.hpp"

namespace nodus::metering {

int serve(const Config& config);
int publish(const Config& config, const std::string& file);
// Closes the months up to `month` (2026-11) of one organization, or of all: their invoices. Idempotent.
int invoice(const Config& config, const std::string& month, const std::string& org);
// Rebuilds the lines of a month from the log and tells the difference to the tables; 1 unless it is zero.
int recompute_month(const Config& config, const std::string& month, const std::string& org);
int run_audit(const Config& config);
int parked_list(const Config& config);
int parked_replay(const Config& config, const std::string& topic, const std::string& stream);
int parked_skip(const Config& config, const std::string& topic, const std::string& stream);

int print_checks(const std::vector<Check>& checks);  // 1: there are faults
int complain(const Error& error, int code);          // one sentence on stderr, and its causes

}  // namespace nodus::metering
