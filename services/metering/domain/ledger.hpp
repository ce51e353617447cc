// Double entry: what each event that moves money posts. Debits are above zero, credits below; the lines of an
// entry sum to zero. An organization's balance is what the platform owes it: minus the sum of its
// CustomerCredit lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/metering/domain/account.hpp"
#include "services/metering/domain/charge.hpp"

namespace nodus::metering {

namespace ledger {
inline constexpr std::string_view kCustomerCredit = "CustomerCredit";      // owed to the organization
inline constexpr std::string_view kCash = "Cash";                          // received, and paid back
inline constexpr std::string_view kGrantedCredit = "GrantedCredit";        // given away
inline constexpr std::string_view kAdjustments = "Adjustments";            // by hand
inline constexpr std::string_view kComputeRevenue = "ComputeRevenue";      // earned
inline constexpr std::string_view kStorageRevenue = "StorageRevenue";      // earned
inline constexpr std::string_view kExpiredCredit = "ExpiredCredit";        // of Grants, unused
inline constexpr std::string_view kUncoveredRefunds = "UncoveredRefunds";  // paid back though it was spent
}  // namespace ledger

struct LedgerLine {
  std::string account;
  Money amount;
  bool operator==(const LedgerLine&) const = default;
};

struct LedgerEntry {
  OrgId org;
  std::string kind;  // Purchase | Grant | Refund | Adjustment | Charge | Storage | Expiry
  std::string ref;   // of its kind within the organization: the credit's id (a Grant that expires in steps:
                     // and a number, from 2), or <sandbox uid>/<start>; of
                     // Storage also /<its first second>
  Instant at;
  std::vector<LedgerLine> lines;
  bool operator==(const LedgerEntry&) const = default;
};

// nullopt: the event moves no money.
std::optional<LedgerEntry> entry_of(const account::Event& event);
std::optional<LedgerEntry> entry_of(const charge::Event& event);

// What an entry changed the organization's balance by.
Money balance_change(const LedgerEntry& entry);

}  // namespace nodus::metering
