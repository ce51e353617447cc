#include "cli/retry.hpp"

#include <algorithm>

namespace nodus::cli {

bool worth_retrying(const Error& error) {
  return retryable(error.code);
}

std::optional<Millis> retry_delay(const Error& error, int attempt, Micros left, uint64_t random) {
  if (!worth_retrying(error)) return std::nullopt;
  constexpr int64_t kFirst = 200, kMost = 5'000;
  int64_t delay = std::min(kMost, kFirst << std::min(attempt - 1, 8));
  if (error.retry_after_s) {
    const int64_t asked = int64_t{*error.retry_after_s} * 1000;
    delay =
        error.reason == "SandboxStarting" ? std::min(delay, std::max(asked, kFirst)) : std::max(delay, asked);
  }
  delay += static_cast<int64_t>(random % static_cast<uint64_t>(delay / 4 + 1));
  if (Millis(delay) > left) return std::nullopt;
  return Millis(delay);
}

}  // namespace nodus::cli
