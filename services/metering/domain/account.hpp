// account/<org>: sums only, whatever the number of Sandboxes. The account is a straight line that falls by
// the sum of the rates; the second at which it ends is known exactly.
//
// An era is the time between two exhaustions. When the balance ends at second T, every line that is open then
// ends at T for good (what follows is waived), and the account goes on in the next era with none.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "libs/money/money.hpp"
#include "services/metering/domain/slot.hpp"

namespace nodus::metering::account {

inline constexpr int kDefaultPriority = 5;  // of a credit: 1 to 9, the smallest is used first

// ---- events

struct CreditPosted {
  OrgId org;
  std::string id;    // of the grant or payment; posted once
  std::string kind;  // Purchase | Grant | Refund | Adjustment
  Money amount;      // what the balance changes by; below zero: a Refund, or an Adjustment that takes away
  std::string author;
  Instant at;
  std::optional<MoneySecond> expires_s{};  // of a Grant
  int priority = kDefaultPriority;
  std::optional<Money> used{};  // by charges and lines at that instant
  Money uncovered{};            // of a Refund: paid back though it was spent
  bool operator==(const CreditPosted&) const = default;
};

struct CreditExpired {  // the unused part of a Grant left the balance
  OrgId org;
  std::string id;  // of the Grant
  Money amount;    // what left the balance; zero: all of it was used
  MoneySecond at_s = 0;
  Money used;    // by charges and lines at that instant
  int step = 1;  // 2 and more: holds had kept this part of it until then
  bool operator==(const CreditExpired&) const = default;
};

struct FirstPurchase {  // once an organization: the limit on its shared capacity is lifted
  OrgId org;
  std::string id;  // of the purchase
  Instant at;
  bool operator==(const FirstPurchase&) const = default;
};

struct HoldPlaced {
  OrgId org;
  SandboxUid uid;
  int64_t start = 0;
  Rate rate;
  Money hold;
  bool operator==(const HoldPlaced&) const = default;
};

struct HoldFreed {
  OrgId org;
  SandboxUid uid;
  int64_t start = 0;
  Money hold;
  bool operator==(const HoldFreed&) const = default;
};

struct AccrualStarted {  // the line gets steeper; the hold moves from the funded to the running
  OrgId org;
  SandboxUid uid;
  int64_t start = 0;
  Rate rate;
  MoneySecond from_s = 0;
  Money hold;
  bool storage = false;  // of a restore point: it had no hold
  bool operator==(const AccrualStarted&) const = default;
};

struct AccrualFlattened {  // maxCostUSD was reached: nothing accrues from to_s on
  OrgId org;
  SandboxUid uid;
  int64_t start = 0;
  Rate rate;
  MoneySecond from_s = 0;
  MoneySecond to_s = 0;
  Money hold;
  bool operator==(const AccrualFlattened&) const = default;
};

struct LinesFlattened {  // a Budget ended: nothing of its project accrues from to_s on
  OrgId org;
  ProjectId project;
  MoneySecond to_s = 0;
  Rate rate;  // sums over the lines that ended
  Money base;
  Money hold;
  int64_t lines = 0;
  bool operator==(const LinesFlattened&) const = default;
};

struct BalanceExhausted {  // every open line ends at at_s
  OrgId org;
  MoneySecond at_s = 0;
  bool operator==(const BalanceExhausted&) const = default;
};

// How the line stood when its start was closed. Capped: flattened, by maxCostUSD or by a Budget.
enum class LineEnd { kLive, kCapped, kExhausted };

struct AccrualEnded {
  OrgId org;
  SandboxUid uid;
  int64_t start = 0;
  MoneySecond to_s = 0;
  Money amount;  // what was really charged: a posting
  Rate rate;
  MoneySecond from_s = 0;
  Money hold;
  LineEnd line = LineEnd::kLive;
  MoneySecond flat_s = 0;  // capped or exhausted: where the line had ended
  int64_t era = 0;
  bool operator==(const AccrualEnded&) const = default;
};

struct RefusalNoted {
  OrgId org;
  Money hold;
  bool operator==(const RefusalNoted&) const = default;
};

struct FundsChanged {  // refusals of this organization may be asked again
  OrgId org;
  Instant at;
  bool operator==(const FundsChanged&) const = default;
};

using Event = std::variant<CreditPosted, CreditExpired, FirstPurchase, HoldPlaced, HoldFreed, AccrualStarted,
                           AccrualFlattened, LinesFlattened, BalanceExhausted, AccrualEnded, RefusalNoted,
                           FundsChanged>;

// ---- state

struct Exhaustion {
  int64_t era = 0;
  MoneySecond at_s = 0;
  int64_t starts = 0;  // that ended there and are not closed yet; at 0 the entry goes
  bool operator==(const Exhaustion&) const = default;
};

struct Lot {       // see lots.hpp
  std::string id;  // of a Grant that expires; else empty
  int priority = kDefaultPriority;
  std::optional<MoneySecond> expires_s;
  Money left;
  int steps = 0;  // in which it expired so far
  bool operator==(const Lot&) const = default;
};

struct State {
  OrgId org;
  Money credits;      // Σ posted credits, less what expired
  Money charged;      // Σ posted charges
  Money pending;      // Σ of lines that ended (cap, exhaustion) and are not posted yet
  Money held_funded;  // Σ holds of funded starts without a slot: set aside, running starts cannot eat them
  Money held_open;    // Σ holds of starts with a live line
  Rate rate;          // Σ rates of live lines
  Money base;         // Σ rate × from of live lines
  int64_t funded = 0;
  int64_t open = 0;  // live lines
  int64_t era = 0;
  std::vector<Exhaustion> exhaustions;
  std::optional<Money> smallest_refused;  // the smallest hold refused since the last FundsChanged
  std::vector<Lot> lots;                  // in the order in which they are used
  Money used_up;                          // what was taken from lots so far
  bool purchased = false;                 // FirstPurchase was told
  bool operator==(const State&) const = default;
};

inline constexpr int kStateVersion = 1;
void evolve(State& state, const Event& event);

// Posted: Σ credits − Σ charges. Never below zero.
Money balance(const State& state);
// What the live lines have used up at `at`.
Money accrued(const State& state, MoneySecond at_s);
// What a new start may hold at `at`; may be negative.
Money available(const State& state, MoneySecond at_s);
// The last second that the live lines can pay, unless a Grant expires before it (lots.hpp, money_ends_at);
// nullopt: they can go on for ever.
std::optional<MoneySecond> ends_at(const State& state);
// Where the lines of an era ended; nullopt: the era is the present one.
std::optional<MoneySecond> exhausted_at(const State& state, int64_t era);
// When stops must be ordered: the stop reserve before the end.
std::optional<MoneySecond> stop_at(const State& state, Seconds stop_reserve);
// The first instant after `after` at which the account must be looked at, if nothing changes: when stops must
// be ordered, or just after its end.
std::optional<Instant> next_deadline(const State& state, Seconds stop_reserve, Instant after);

}  // namespace nodus::metering::account
