// The decisions. Each touches the charge of one Sandbox, the spend of its project and the account of its
// organization, so all are decided at once, over the three states. A repeat, a stale start or a late report
// yields no events.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "libs/base/error.hpp"
#include "services/metering/domain/account.hpp"
#include "services/metering/domain/budget.hpp"
#include "services/metering/domain/charge.hpp"
#include "services/metering/domain/prices.hpp"

namespace nodus::metering {

// ---- commands about one start

struct JudgeOffer {
  SlotRef slot;
  std::string sandbox_name;
  Shape shape;
  std::optional<Money> max_cost;
  std::string machine_type{};  // empty: shared capacity
  bool recovery = false;       // the platform starts it anew by itself
};
struct EndOffer {  // it lapsed without a reservation
  SlotRef slot;
  Instant at;
  bool deleted = false;  // with the Sandbox: nothing of it is stored any more
};
struct OpenCharge {
  SlotRef slot;
  Times times;
};
struct NoteInstants {
  SlotRef slot;
  Times times;
};
struct DeclineStop {  // the idle stop that was under way: the Sandbox was used after all
  SlotRef slot;
};
struct RaiseCap {  // maxCostUSD was added or raised while the start is under way
  SlotRef slot;
  Money max_cost;
  Instant at;
};
struct CloseCharge {
  SlotRef slot;
  Times times;
  std::optional<int64_t> saved_bytes{};  // of a new restore point; nullopt: the one before stays
  bool deleted = false;                  // with the Sandbox: nothing of it is stored any more
};
struct JudgeMoney {  // a deadline: has the money of this start ended by `at`, up to which the facts are
                     // known?
  SlotRef slot;
  Instant at;
};
struct DropStorage {  // the Sandbox was deleted while it held no slot
  SlotRef slot;
  Instant at;
};
struct JudgeStorage {  // has the money of what is stored ended by `at`, up to which the facts are known? Can
                       // what is waived be paid again?
  SlotRef slot;
  Instant at;
};
using Command = std::variant<JudgeOffer, EndOffer, OpenCharge, NoteInstants, DeclineStop, CloseCharge,
                             JudgeMoney, RaiseCap, DropStorage, JudgeStorage>;

const SlotRef& slot_of(const Command& command);

struct Context {
  Instant now;
  Seconds hold{75};          // 60 s and the stop reserve
  Seconds stop_reserve{15};  // how long before the end of the balance a stop is ordered
  // In force now, for JudgeOffer, which needs it; or when a restore point was saved, for CloseCharge.
  std::optional<PriceVersion> price;
  bool brake = false;  // an operator suspended the ends of money: none is recorded, no stop ordered
};

struct Events {
  std::vector<charge::Event> charge;
  std::vector<account::Event> account;
  std::vector<budget::Event> budget;
};

// Errors: Conflict/ReservedWithoutFunding, Conflict/IntervalStillOpen (the message is parked),
// Conflict/MachineTypeUnpriced, Unavailable/NoPriceBook.
Result<Events> decide(const charge::State& charge, const account::State& account, const budget::State& budget,
                      const Command& command, const Context& context);

// ---- commands about the spend of a project

struct PutBudget {
  OrgId org;
  ProjectId project;
  std::string name;
  std::string uid;  // of a new one
  budget::Spec spec;
  std::string author;
  bool create = true;  // else it must exist
  // As the caller knows it; what is absent is not checked.
  std::optional<int64_t> expected_generation = std::nullopt;
  std::string expected_uid = "";
  budget::Metadata metadata = {};  // of one that exists, no difference when it is made again
};
struct DeleteBudget {
  OrgId org;
  ProjectId project;
  std::string name;
  std::string author;
};
struct JudgeBudget {  // a deadline: has a Budget ended by `at`, has a month begun, is a threshold reached?
  OrgId org;
  ProjectId project;
  Instant at;
};
using BudgetCommand = std::variant<PutBudget, DeleteBudget, JudgeBudget>;

// Errors: Conflict/AlreadyExists (another spec), NotFound/NotFound, Conflict/TooManyBudgets,
// Conflict/Conflict (it is not the one that the caller knows).
Result<Events> decide(const account::State& account, const budget::State& budget,
                      const BudgetCommand& command, const Context& context);

// ---- commands about the account alone

struct PostedCredit {  // the body of a credit, as it was asked for
  std::string kind;
  Money amount;
  std::optional<MoneySecond> expires_s{};
  int priority = account::kDefaultPriority;
  bool operator==(const PostedCredit&) const = default;
};
struct PostCredit {
  OrgId org;
  std::string id;
  std::string kind;  // Purchase | Grant | Refund | Adjustment
  Money amount;      // above zero; an Adjustment may take away
  std::string author;
  std::optional<PostedCredit> posted{};    // what is posted under this id already
  std::optional<MoneySecond> expires_s{};  // of a Grant
  int priority = account::kDefaultPriority;
  bool paid_back = false;  // a Refund that has happened: what is spent already is noted as uncovered
  // Not empty: `amount` is the total of all refunds whose ids begin so; the new ones make up the difference.
  std::string total_of{};
};
struct JudgeBalance {  // a deadline: has the balance ended by `at`?
  OrgId org;
  Instant at;
};
using AccountCommand = std::variant<PostCredit, JudgeBalance>;

// Errors: Conflict/CreditIdReused (posted with another body), Conflict/CreditSpent (more is taken away than
// is left), Invalid/Invalid with causes.
Result<std::vector<account::Event>> decide(const account::State& account, const AccountCommand& command,
                                           const Context& context);

}  // namespace nodus::metering
