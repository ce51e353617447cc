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
  }
  CHECK(false, "kind {}", static_cast<int>(kind));
}

std::vector<Line> rate_lines(const Times& times, MoneySecond from_s, MoneySecond end_s, Rate rate,
                             std::optional<MoneySecond> paid_until_s, bool recovery) {
  CHECK(from_s <= end_s, "{} > {}", from_s, end_s);
  const auto stopping = std::clamp(times.stopping ? to_money_second(*times.stopping) : end_s, from_s, end_s);
  const auto started =
      std::clamp(times.started ? to_money_second(*times.started) : stopping, from_s, stopping);
  const auto paid_until = paid_until_s.value_or(end_s);

  std::vector<Line> lines;
  const auto add = [&](LineKind kind, MoneySecond from, MoneySecond to) {
    const bool free = recovery && kind != LineKind::kRunning;
    const auto cut = free ? from : std::clamp(paid_until, from, to);
    if (from < cut) lines.push_back({kind, from, cut, rate * (cut - from), false});
    if (cut < to) lines.push_back({kind, cut, to, Money(), true});
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
