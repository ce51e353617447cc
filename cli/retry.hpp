// When a call is made again: the one layer that retries. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"

namespace nodus::cli {

// Whether the same request, with the same Idempotency-Key, may succeed later: connections that failed or
// broke off, timeouts, and answers 429, 502, 503, 504.
bool worth_retrying(const Error& error);

// How long to wait before attempt `attempt` (1 is the first repeat), or nothing when `left`, the time until
// we give up, does not allow it. A Retry-After is the least, except for SandboxStarting, where asking early
// does no harm and finds the Sandbox sooner. `random` spreads callers.
std::optional<Millis> retry_delay(const Error& error, int attempt, Micros left, uint64_t random);

}  // namespace nodus::cli
