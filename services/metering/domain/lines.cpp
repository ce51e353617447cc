#include "services/metering/domain/lines.hpp"

#include <algorithm>

#include "libs/base/check.hpp"

namespace nodus::metering {

std::string_view to_string(LineKind kind) {
  switch (kind) {
    case LineKind::kStarting:
      return "Starting";
    case LineKind::kRunning:
      return "Running";
    case LineKind::kStopping:
      return "Stopping";
    case LineKind::kStorage:
      return "Storage";
  }
  CHECK(false, "kind {}", static_cast<int>(kind));
}

std::string_view to_string(Waiver cause) {
  switch (cause) {
    case Waiver::kUnsaid:
      return "";
    case Waiver::kMaxCostReached:
      return "MaxCostReached";
    case Waiver::kBudgetExceeded:
      return "BudgetExceeded";
    case Waiver::kInsufficientCredits:
      return "InsufficientCredits";
    case Waiver::kPlatformRecovery:
      return "PlatformRecovery";
  }
  CHECK(false, "cause {}", static_cast<int>(cause));
}

std::optional<Waiver> waiver_of(std::string_view text) {
  for (const auto cause : {Waiver::kUnsaid, Waiver::kMaxCostReached, Waiver::kBudgetExceeded,
                           Waiver::kInsufficientCredits, Waiver::kPlatformRecovery})
    if (text == to_string(cause)) return cause;
  return std::nullopt;
}

std::vector<Line> rate_lines(const Times& times, MoneySecond from_s, MoneySecond end_s, Rate rate,
                             std::optional<MoneyEnd> money_end, bool recovery) {
  CHECK(from_s <= end_s, "{} > {}", from_s, end_s);
  const auto stopping = std::clamp(times.stopping ? to_money_second(*times.stopping) : end_s, from_s, end_s);
  const auto started =
      std::clamp(times.started ? to_money_second(*times.started) : stopping, from_s, stopping);
  const MoneyEnd end = money_end.value_or(MoneyEnd{end_s});

  std::vector<Line> lines;
  const auto add = [&](LineKind kind, MoneySecond from, MoneySecond to) {
    const bool free = recovery && kind != LineKind::kRunning;
    const auto cut = free ? from : std::clamp(end.at_s, from, to);
    if (from < cut) lines.push_back({kind, from, cut, rate * (cut - from), false});
    if (cut < to)
      lines.push_back({kind, cut, to, Money(), true, free ? Waiver::kPlatformRecovery : end.cause});
  };
  add(LineKind::kStarting, from_s, started);
  add(LineKind::kRunning, started, stopping);
  add(LineKind::kStopping, stopping, end_s);
  return lines;
}

Money total(const std::vector<Line>& lines) {
  Money sum;
  for (const auto& line : lines) sum += line.amount;
  return sum;
}

}  // namespace nodus::metering
