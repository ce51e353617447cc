// charge/<sandbox uid>: what the starts of one Sandbox cost. One start at a time: Idle → Funded → Open →
// Idle.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "libs/money/money.hpp"
#include "services/metering/domain/lines.hpp"
#include "services/metering/domain/prices.hpp"
#include "services/metering/domain/slot.hpp"

namespace nodus::metering::charge {

// ---- events

struct StartFunded {
  SlotRef slot;
  std::string sandbox_name;
  std::string price_version;
  Rate rate;  // frozen: this start pays it to its end
  Money hold;
  std::optional<Money> max_cost;
  Instant at;
  std::optional<PricesUsed> prices{};  // what the rate was made from
  bool recovery = false;  // the platform started it anew by itself: Starting and Stopping are waived
  bool budgeted = true;   // false: by a release that had no Budgets, so it is not counted on budget/<project>
  bool operator==(const StartFunded&) const = default;
};

struct StartRefused {
  SlotRef slot;
  std::string reason;  // InsufficientCredits | BudgetExceeded
  std::string limit;   // balance | maxCostUSD | budget/<name>
  Money hold;          // what the start needs
  Money available;     // what there is: the two numbers that refused
  Instant at;
  bool operator==(const StartRefused&) const = default;
};

struct OfferReleased {
  SlotRef slot;
  Instant at;
  bool operator==(const OfferReleased&) const = default;
};

struct ChargeOpened {
  SlotRef slot;
  Rate rate;
  Instant reserved_at;
  MoneySecond from_s = 0;            // never before the end of the previous start
  std::optional<MoneySecond> cap_s;  // where maxCostUSD is used up; a recovery's is known when it is Running
  int64_t era = 0;                   // of the account, see account::State
  int64_t budget_era = 0;            // of the project's spend, see budget::State
  bool operator==(const ChargeOpened&) const = default;
};

struct InstantsNoted {
  SlotRef slot;
  Times times;
  bool operator==(const InstantsNoted&) const = default;
};

struct CapReached {  // seconds from at_s on are waived
  SlotRef slot;
  MoneySecond at_s = 0;
  bool operator==(const CapReached&) const = default;
};

struct CapRaised {  // maxCostUSD was added or raised, or it is known since when a recovery pays
  SlotRef slot;
  Money max_cost;
  std::optional<MoneySecond>
      cap_s;  // where it is used up now; nullopt: not open yet, or a recovery not Running
  bool operator==(const CapRaised&) const = default;
};

struct PaidUntil {  // balance or Budget ended: seconds from at_s on are waived
  SlotRef slot;
  MoneySecond at_s = 0;
  bool operator==(const PaidUntil&) const = default;
};

enum class StopReason { kInsufficientCredits, kMaxCostReached, kBudgetExceeded };

struct StopOrdered {  // at most one a start, and one more after each stop that was declined
  SlotRef slot;
  StopReason reason = StopReason::kInsufficientCredits;
  Instant at;
  bool operator==(const StopOrdered&) const = default;
};

struct StopDeclined {  // the slot runs on as if neither this stop nor an order of money had been
  SlotRef slot;
  Instant stopping;  // when the declined stop began
  bool operator==(const StopDeclined&) const = default;
};

struct ChargeClosed {
  SlotRef slot;
  Rate rate;
  std::vector<Line> lines;
  Money amount;
  Money sandbox_total;  // of all closed starts
  MoneySecond to_s = 0;
  Instant at;
  bool operator==(const ChargeClosed&) const = default;
};

// The Sandbox holds no slot: its newest restore point is stored from from_s on.
struct StorageOpened {
  SlotRef slot;  // of the start that was released last
  std::string sandbox_name;
  int64_t size_bytes = 0;
  std::string price_version;
  Rate rate;  // frozen for as long as this restore point is the newest
  MoneySecond from_s = 0;
  int64_t era = 0;  // as of ChargeOpened
  int64_t budget_era = 0;
  Waiver waived = Waiver::kUnsaid;  // why nobody pays it; kUnsaid: it is paid
  bool operator==(const StorageOpened&) const = default;
};

struct StorageMetered {  // [from_s, to_s) was stored; after it another StorageOpened, or none
  SlotRef slot;
  Rate rate;
  MoneySecond from_s = 0;
  MoneySecond to_s = 0;  // may be from_s
  Money amount;          // rate × (to_s − from_s); zero when waived
  Waiver waived = Waiver::kUnsaid;
  Instant at;
  bool operator==(const StorageMetered&) const = default;
};

using Event =
    std::variant<StartFunded, StartRefused, OfferReleased, ChargeOpened, InstantsNoted, CapReached, PaidUntil,
                 StopOrdered, StopDeclined, ChargeClosed, CapRaised, StorageOpened, StorageMetered>;

// ---- state

enum class Phase { kFunded, kOpen };
enum class Outcome { kNone, kRefused, kLapsed, kClosed };

struct Start {
  SlotRef slot;
  std::string sandbox_name;
  Phase phase = Phase::kFunded;
  Rate rate;
  Money hold;
  std::optional<Money> max_cost;
  Times times;
  std::optional<Instant> declined;  // when the last stop that was declined began: repeats of it are stale
  MoneySecond from_s = 0;
  std::optional<MoneySecond> cap_s;
  int64_t era = 0;
  bool recovery = false;
  bool budgeted = true;
  int64_t budget_era = 0;
  bool capped = false;  // the cap was reached and its lines ended there
  bool stop_ordered = false;
  std::optional<MoneySecond> paid_until_s;  // where balance or Budget ended, once that is told
  bool operator==(const Start&) const = default;
};
// The first second that it pays; nullopt: of a recovery that is not Running yet.
std::optional<MoneySecond> pays_from(const Start& start);

struct RestorePoint {  // the newest
  int64_t size_bytes = 0;
  std::string price_version;
  Rate rate;
  bool operator==(const RestorePoint&) const = default;
};

struct Stored {  // what of its storage is not metered yet
  SlotRef slot;
  std::string sandbox_name;
  MoneySecond from_s = 0;
  int64_t era = 0;
  int64_t budget_era = 0;
  Waiver waived = Waiver::kUnsaid;
  bool operator==(const Stored&) const = default;
};

struct State {
  std::optional<Start> current;
  int64_t last_start = 0;  // the highest that was judged: older ones are stale
  Outcome last_outcome = Outcome::kNone;
  Money closed_total;
  MoneySecond last_released_s = 0;
  std::optional<Rate> last_rate;  // of the start that was closed last
  std::optional<RestorePoint> restore_point;
  std::optional<Stored> stored;  // while it holds no slot and has a restore point
  MoneySecond stored_to_s = 0;   // what is metered: the next start begins here at the earliest
  bool operator==(const State&) const = default;
};

inline constexpr int kStateVersion = 1;
void evolve(State& state, const Event& event);

}  // namespace nodus::metering::charge
