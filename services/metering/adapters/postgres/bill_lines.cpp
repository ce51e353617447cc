#include "services/metering/adapters/postgres/bill_lines.hpp"

#include <algorithm>

#include "services/metering/app/calendar.hpp"

namespace nodus::metering {

namespace {

// Why the waived seconds of a start are waived, of a release whose events did not say: by what ended first.
const char* waived_by(const std::vector<Line>& lines, std::optional<MoneySecond> cap_s) {
  const auto first = std::ranges::find(lines, true, &Line::waived);
  return first != lines.end() && cap_s && *cap_s <= first->from_s ? "MaxCostReached" : "InsufficientCredits";
}

void cut(const Line& line, Rate rate, const std::string& reason, std::vector<BilledLine>& out) {
  for (MoneySecond from = line.from_s; from < line.to_s;) {
    const MoneySecond to = std::min(line.to_s, (from / kDaySeconds + 1) * kDaySeconds);
    out.push_back(
        {{line.kind, from, to, line.waived ? Money() : rate * (to - from), line.waived, line.cause}, reason});
    from = to;
  }
}

}  // namespace

std::vector<BilledLine> billed(const charge::ChargeClosed& closed, std::optional<MoneySecond> cap_s) {
  const char* unsaid = waived_by(closed.lines, cap_s);
  std::vector<BilledLine> out;
  for (const auto& line : closed.lines) {
    const bool said = line.cause != Waiver::kUnsaid;
    cut(line, closed.rate,
        !line.waived ? "Charged"
        : said       ? std::string(to_string(line.cause))
                     : unsaid,
        out);
  }
  return out;
}

std::vector<BilledLine> billed(const charge::StorageMetered& metered) {
  const bool waived = metered.waived != Waiver::kUnsaid;
  std::vector<BilledLine> out;
  cut({LineKind::kStorage, metered.from_s, metered.to_s, metered.amount, waived, metered.waived},
      metered.rate, waived ? std::string(to_string(metered.waived)) : "Charged", out);
  return out;
}

}  // namespace nodus::metering
