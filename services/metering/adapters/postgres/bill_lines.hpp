// A closed start as rows of the bill: its lines, cut at UTC midnight, and why each costs what it costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "services/metering/domain/charge.hpp"

namespace nodus::metering {

struct BilledLine {  // within one UTC day
  Line line;
  std::string reason;  // Charged, or why it is waived (to_string(Waiver))
};

// The amounts add up to those of the event. `cap_s`: where maxCostUSD was used up; tells the cause that
// events of earlier releases do not say.
std::vector<BilledLine> billed(const charge::ChargeClosed& closed, std::optional<MoneySecond> cap_s);
std::vector<BilledLine> billed(const charge::StorageMetered& metered);
// The place of a line of storage among the lines of its start; as the SQL function of this name.
inline int64_t storage_ordinal(MoneySecond from_s) {
  return from_s - 1'577'836'800;
}

}  // namespace nodus::metering
