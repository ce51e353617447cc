#include "services/metering/domain/ledger.hpp"

namespace nodus::metering {

namespace {

LedgerLine line(std::string_view account, Money amount) {
  return {std::string(account), amount};
}

// The account on the other side of a credit.
std::string_view source_of(const std::string& kind) {
  if (kind == "Purchase" || kind == "Refund") return ledger::kCash;
  return kind == "Adjustment" ? ledger::kAdjustments : ledger::kGrantedCredit;
}

LedgerEntry posted(const account::CreditPosted& e) {
  LedgerEntry entry{e.org, e.kind, e.id, e.at, {}};
  entry.lines.push_back(line(ledger::kCustomerCredit, -e.amount));
  entry.lines.push_back(line(source_of(e.kind), e.amount - e.uncovered));
  if (e.uncovered != Money()) entry.lines.push_back(line(ledger::kUncoveredRefunds, e.uncovered));
  return entry;
}

}  // namespace

std::optional<LedgerEntry> entry_of(const account::Event& event) {
  if (const auto* credit = std::get_if<account::CreditPosted>(&event)) return posted(*credit);
  const auto* expired = std::get_if<account::CreditExpired>(&event);
  if (expired == nullptr || expired->amount == Money()) return std::nullopt;
  std::string ref = expired->id;
  if (expired->step > 1) ref += " " + std::to_string(expired->step);  // an id has no blanks
  return LedgerEntry{
      expired->org,
      "Expiry",
      std::move(ref),
      to_instant(expired->at_s),
      {line(ledger::kCustomerCredit, expired->amount), line(ledger::kExpiredCredit, -expired->amount)}};
}

std::optional<LedgerEntry> entry_of(const charge::Event& event) {
  if (const auto* stored = std::get_if<charge::StorageMetered>(&event)) {
    if (stored->amount == Money()) return std::nullopt;
    const SlotRef& slot = stored->slot;
    return LedgerEntry{
        slot.org,
        "Storage",
        slot.uid.str() + "/" + std::to_string(slot.start) + "/" + std::to_string(stored->from_s),
        stored->at,
        {line(ledger::kCustomerCredit, stored->amount), line(ledger::kStorageRevenue, -stored->amount)}};
  }
  const auto* closed = std::get_if<charge::ChargeClosed>(&event);
  if (closed == nullptr) return std::nullopt;
  return LedgerEntry{
      closed->slot.org,
      "Charge",
      closed->slot.uid.str() + "/" + std::to_string(closed->slot.start),
      closed->at,
      {line(ledger::kCustomerCredit, closed->amount), line(ledger::kComputeRevenue, -closed->amount)}};
}

Money balance_change(const LedgerEntry& entry) {
  Money sum;
  for (const auto& line : entry.lines)
    if (line.account == ledger::kCustomerCredit) sum -= line.amount;
  return sum;
}

}  // namespace nodus::metering
