// Bill lines: an interval of a start, cut at its instants and at the second where money ended.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "libs/money/money.hpp"
#include "services/metering/domain/slot.hpp"

namespace nodus::metering {

enum class LineKind { kStarting, kRunning, kStopping, kStorage };
std::string_view to_string(LineKind kind);

// Why a line is waived.
enum class Waiver { kUnsaid, kMaxCostReached, kBudgetExceeded, kInsufficientCredits, kPlatformRecovery };
std::string_view to_string(Waiver cause);                // as bills say it; kUnsaid: ""
std::optional<Waiver> waiver_of(std::string_view text);  // nullopt: unknown

// Where the money of a line ended, and what ended it.
struct MoneyEnd {
  MoneySecond at_s = 0;
  Waiver cause = Waiver::kUnsaid;

  bool operator==(const MoneyEnd&) const = default;
};

struct Line {
  LineKind kind = LineKind::kStarting;
  MoneySecond from_s = 0;  // [from_s, to_s), never empty
  MoneySecond to_s = 0;
  Money amount;  // rate × (to_s − from_s); zero when waived
  bool waived = false;
  Waiver cause = Waiver::kUnsaid;  // of a waived line; kUnsaid: of a release that did not say

  bool operator==(const Line&) const = default;
};

// Starting [from, started or stopping or end), Running [started, stopping or end), Stopping [stopping, end).
// Instants outside of [from, end) are moved to its edge. Seconds from where money ended on are waived; of a
// recovery, which the platform started by itself, Starting and Stopping too.
std::vector<Line> rate_lines(const Times& times, MoneySecond from_s, MoneySecond end_s, Rate rate,
                             std::optional<MoneyEnd> money_end, bool recovery = false);

Money total(const std::vector<Line>& lines);

}  // namespace nodus::metering
