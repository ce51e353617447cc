// The Sandbox aggregate, stream sandbox/<uid>: phases, starts, stops and the end of one Sandbox. Pure.
// The table state × message is in services/lifecycle/README.md; tests/unit/lifecycle proves each cell.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "libs/base/ids.hpp"
#include "services/lifecycle/domain/spec.hpp"

namespace nodus::lifecycle {

enum class Phase {
  kNone,
  kPending,
  kStarting,
  kRunning,
  kStopping,
  kStopped,
  kTerminating,
  kFailed,
  kDeleted,
  kRecovering  // its machine was lost: it starts elsewhere, from its last restore point
};
enum class StopReason {
  kNone,
  kUser,
  kIdle,
  kInsufficientCredits,
  kBudgetExceeded,
  kMaxCostReached,
  kDelete
};
enum class Trigger { kCreate, kStart, kCommand, kFile, kRecovery };

// The failure of a start whose machine is lost, as the scheduler says it in SlotReleased.
inline constexpr std::string_view kNodeLost = "NodeLost";

std::string_view to_string(Phase phase);
std::string_view to_string(StopReason reason);  // as in status.stopReason
std::string_view to_string(Trigger trigger);

struct RestorePoint {
  std::string object;
  std::string sha256;
  int64_t size_bytes = 0;
  Instant taken_at;

  bool operator==(const RestorePoint&) const = default;
};

// The numbers that refused a start; a 402 repeats them.
struct Refusal {
  std::string reason;  // InsufficientCredits | BudgetExceeded
  std::string limit;   // balance | maxCostUSD | budget/<name>
  std::string hold_usd;
  std::string available_usd;
  Instant at;  // metering's clock

  bool operator==(const Refusal&) const = default;
};

// ---- events

struct SandboxCreated {
  SandboxUid uid;
  OrgId org;
  ProjectId project;
  std::string name;
  SandboxSpec spec;
  std::string image_digest;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  Instant at;
};
struct StartRequested {
  int64_t start = 0;
  Trigger trigger = Trigger::kStart;
  Money spent;  // before this start
  Instant at;
};
struct StopRequested {
  int64_t start = 0;
  StopReason reason = StopReason::kUser;
  std::optional<Instant> idle_since;
  Instant at;
};
struct StopDeclined {
  int64_t start = 0;
  Instant last_activity;
  std::string because;  // what keeps it awake, in words; may be empty
  Instant at;
};
// What the machine says of it: edges, and now and then when it was last used.
struct ActivityNoted {
  int64_t epoch = 0;
  bool busy = false;
  std::string because;  // "process 42 (node)"; empty: nothing keeps it awake
  Instant last_activity;
  Instant at;
};
struct StopWished {  // nothing can be stopped (any more): spec.state alone, and a wake is taken back
  Instant at;
};
struct LifetimeWarned {  // maxLifetime deletes it soon
  Instant at;
};
struct DeleteRequested {
  std::string reason;  // User | MaxLifetime | Idle
  Instant at;
};
struct MaxCostRaised {
  Money max_cost;
  Instant at;
};
struct MetadataChanged {  // what they are from now on, whole
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  Instant at;
};
struct FundingRecorded {
  int64_t start = 0;
  std::optional<Rate> rate;  // absent: refused
  Refusal refusal;           // when refused
  Instant at;
};
struct WakeRecorded {
  Trigger trigger = Trigger::kStart;
  Instant at;
};
struct StartDeferred {  // no machine in time: still wanted, asked for again at `until`
  int attempt = 1;      // 1, 2, 3 … without a slot in between
  Instant until;
  Instant at;
  bool recovering = false;
};
struct SlotRecorded {
  int64_t start = 0;
  int64_t epoch = 0;
  std::string machine;
  std::string data_path;
  Instant reserved_at;
};
struct RunningRecorded {
  int64_t start = 0;
  std::string runtime;
  Instant started_at;
};
struct ReleaseRecorded {
  int64_t start = 0;
  StopReason stop_reason = StopReason::kNone;
  std::string failure;
  std::string message;
  std::optional<RestorePoint> restore_point;
  Instant at;
};
struct PaidUntilRecorded {  // the cap or the balance ended there: later seconds of this start are not charged
  int64_t start = 0;
  int64_t at_s = 0;  // money time
};
struct ChargeRecorded {
  int64_t start = 0;
  Money total;
};
struct ProcessNumbered {
  int64_t number = 0;
  Instant at;
};
struct SandboxDeleted {
  Instant at;
};

using SandboxEvent =
    std::variant<SandboxCreated, StartRequested, StopRequested, StopDeclined, DeleteRequested, MaxCostRaised,
                 FundingRecorded, WakeRecorded, StartDeferred, SlotRecorded, RunningRecorded, ReleaseRecorded,
                 PaidUntilRecorded, ChargeRecorded, ProcessNumbered, SandboxDeleted, StopWished,
                 LifetimeWarned, ActivityNoted, MetadataChanged>;

// ---- state

enum class ConditionType { kReady, kScheduled, kFunded, kRestorable };
constexpr size_t kConditionTypes = 4;
enum class ConditionStatus { kUnknown, kTrue, kFalse };
// When a condition last changed; what it says follows from the rest of the state, see status.hpp.
struct ConditionMark {
  ConditionStatus status = ConditionStatus::kUnknown;
  Instant since;

  bool operator==(const ConditionMark&) const = default;
};

struct Sandbox {
  SandboxUid uid;
  OrgId org;
  ProjectId project;
  std::string name;
  SandboxSpec spec;
  std::string image_digest;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  Instant created_at;

  Phase phase = Phase::kNone;
  Instant phase_since;
  bool wants_running = false;  // spec.state
  int64_t start = 0;           // number of the latest start; 0: never started
  bool start_open = false;     // the latest start is not over yet
  int64_t epoch = 0;           // of the latest slot
  std::string machine;
  std::string data_path;  // host:port; empty without a slot
  std::string runtime;
  std::optional<Instant> reserved_at;
  std::optional<Instant> started_at;
  std::optional<Rate> rate;  // of the start under way
  std::optional<Refusal> refusal;
  StopReason stop_reason = StopReason::kNone;
  bool wake_pending = false;  // start again when the stop is done
  std::string failure;        // of a Failed start, e.g. StartFailed
  std::string message;
  std::optional<RestorePoint> restore_point;
  Money posted;                           // cost of the starts whose charge is posted
  Money unposted;                         // of the last start, from its release until its charge is posted
  int64_t charged_start = 0;              // the latest start whose charge is posted
  Instant last_activity;                  // as far as lifecycle knows
  int64_t processes = 0;                  // numbers given out
  std::optional<Instant> deferred_until;  // Pending without a start: asked for again then
  std::optional<int64_t> paid_until_s;    // of the start under way: what is not charged costs nothing
  int deferrals = 0;                      // in a row
  bool warned = false;                    // that maxLifetime deletes it soon
  bool machine_busy = false;              // as its machine last said
  std::string awake_because;              // likewise; or what declined the last idle stop
  std::string delete_reason;              // User | MaxLifetime | Idle, once it is asked for
  int64_t lost_epoch = 0;                 // the newest epoch whose machine was lost; 0: none
  std::array<ConditionMark, kConditionTypes> marks;  // by ConditionType

  bool operator==(const Sandbox&) const = default;
};

// ---- commands

struct CreateSandbox {
  SandboxCreated created;
  bool run = true;  // spec.state
};
struct TriggerStart {
  Trigger trigger = Trigger::kStart;
};
struct RequestStop {
  StopReason reason = StopReason::kUser;
  std::optional<int64_t> start;  // only this one; absent: whatever runs
};
struct DeleteSandbox {
  std::string reason = "User";
};
struct RaiseMaxCost {
  Money max_cost;
};
// Keys to set, and keys to remove (without a value): two who change different keys do not undo each other.
using KeyChanges = std::map<std::string, std::optional<std::string>>;
struct ChangeMetadata {
  KeyChanges labels;
  KeyChanges annotations;
};
// What a deadline sends when it is due; decided anew against the state of then, never early.
struct CheckRetry {};     // a deferred start is asked for again
struct CheckIdle {};      // nothing used it for idleTimeout, as far as is known here
struct CheckWarning {};   // maxLifetime is near
struct CheckLifetime {};  // maxLifetime passed
struct NumberProcess {};
struct RecordFunding {
  FundingRecorded funding;
};
struct RecordSlot {
  SlotRecorded slot;
};
struct RecordRunning {
  RunningRecorded running;
};
struct RecordStopDeclined {
  StopDeclined declined;
};
struct RecordActivity {
  std::string machine;  // whose word it is
  ActivityNoted activity;
};
struct RecordLapse {  // the offer ended without a slot
  int64_t start = 0;
  std::string reason;  // Refused | Expired | NoCapacity | Stopped | Deleted
  StopReason stop_reason = StopReason::kNone;
};
struct RecordRelease {
  ReleaseRecorded release;
};
struct RecordPaidUntil {
  PaidUntilRecorded paid_until;
};
struct RecordCharge {
  ChargeRecorded charge;
};

using SandboxCommand =
    std::variant<CreateSandbox, TriggerStart, RequestStop, DeleteSandbox, RaiseMaxCost, CheckRetry, CheckIdle,
                 CheckWarning, CheckLifetime, NumberProcess, RecordFunding, RecordSlot, RecordRunning,
                 RecordStopDeclined, RecordLapse, RecordRelease, RecordPaidUntil, RecordCharge,
                 RecordActivity, ChangeMetadata>;

struct SandboxContext {
  Instant now;
  std::optional<Instant>
      funds_changed_at;  // of the organization, metering's clock: older refusals no longer stand
};

struct SandboxAggregate {
  using State = Sandbox;
  using Event = SandboxEvent;
  using Command = SandboxCommand;
  using Context = SandboxContext;
  static constexpr int kStateVersion = 2;  // 2: Recovering, condition marks

  // Rejections, in this order: NotFound (none or deleted), SandboxNotRunning (Terminating), SandboxFailed
  // (Failed, for commands and files), InsufficientCredits/BudgetExceeded (refused, and the funds have not
  // changed since).
  static Result<std::vector<Event>> decide(const State&, const Command&, const Context&);
  static void evolve(State&, const Event&);
};

// ---- questions about a state

bool exists(const Sandbox& sandbox);  // created and not deleted
StopReason stop_reason_of(const Refusal& refusal);

// The order is that of their weight when many are overdue.
inline constexpr std::array<std::string_view, 4> kDeadlineKinds{"lifetime", "retry", "idle", "warning"};
struct Deadline {
  std::string_view kind;  // one of kDeadlineKinds
  Instant due;

  bool operator==(const Deadline&) const = default;
};
// Derived from the state alone; a row disappears by a state change, never by firing.
std::vector<Deadline> deadlines_of(const Sandbox& sandbox);
// The command that a due deadline of that kind sends; none: an unknown kind.
std::optional<SandboxCommand> command_of_deadline(std::string_view kind);
// Cost so far: posted and, while a slot is held, the frozen rate × money seconds since it was reserved.
Money cost_at(const Sandbox& sandbox, Instant now);
// Instants are rated as whole UTC seconds, rounded up.
int64_t money_second(Instant at);
// The refusal that still stands, as the error that a trigger answers.
std::optional<Error> standing_refusal(const Sandbox& sandbox, const SandboxContext& context);

}  // namespace nodus::lifecycle
