// What an organization may have. Checked where a Sandbox is created or started, in the transaction that does
// it and under one lock an organization, so that no number of concurrent requests exceeds a quota.
#pragma once

#include <cstdint>
#include <string>

#include "libs/eventlog/event_log.hpp"
#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle {

struct Quotas {
  int64_t sandboxes = 100'000;
  int64_t cpu_milli = 20'000'000;            // of those that run, start or wait for a machine
  int64_t stored_bytes = int64_t{10} << 40;  // restore points and kept output
  int64_t creates_per_minute = 30'000;
};

// What one Sandbox counts for.
struct Share {
  int64_t sandboxes = 0;
  int64_t cpu_milli = 0;
  int64_t stored_bytes = 0;

  bool operator==(const Share&) const = default;
};
Share share_of(const Sandbox& sandbox);

// The stream whose head is the organization's lock; name it first in Work::streams, so that all creates and
// starts of an organization meet in one batch.
std::string quota_stream(const OrgId& org);

// Within decide(), after the change was applied: refuses it when it would exceed a quota or the organization
// is suspended, or its project is gone. Reads nothing when the change adds nothing.
//   Forbidden/QuotaExceeded, TooManyRequests/TooManyRequests (creates a minute),
//   Forbidden/OrganizationSuspended, NotFound
Result<void> check_quota(eventlog::Unit& unit, const Sandbox& before, const Sandbox& after,
                         const Quotas& defaults, Instant now);
// Adds the change to what the organization uses. Every change of a Sandbox passes here.
void project_usage(pg::Tx& tx, const Sandbox& before, const Sandbox& after);

Error organization_suspended(const std::string& reason);

}  // namespace nodus::lifecycle
