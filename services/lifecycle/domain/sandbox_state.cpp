// How events change a Sandbox, and what can be asked of its state.
#include <algorithm>
#include <limits>

#include "libs/base/overloaded.hpp"
#include "services/lifecycle/domain/sandbox.hpp"
#include "services/lifecycle/domain/status.hpp"

namespace nodus::lifecycle {

bool exists(const Sandbox& s) {
  return s.phase != Phase::kNone && s.phase != Phase::kDeleted;
}

StopReason stop_reason_of(const Refusal& refusal) {
  if (refusal.reason == "InsufficientCredits") return StopReason::kInsufficientCredits;
  return refusal.limit == "maxCostUSD" ? StopReason::kMaxCostReached : StopReason::kBudgetExceeded;
}

namespace {

// What the start under way has cost at `at`: the frozen rate × its money seconds, as far as they are charged.
Money running_cost(const Sandbox& s, Instant at) {
  if (!s.rate || !s.reserved_at) return {};
  const int64_t end_s =
      std::min(money_second(at), s.paid_until_s.value_or(std::numeric_limits<int64_t>::max()));
  return *s.rate * std::max<int64_t>(0, end_s - money_second(*s.reserved_at));
}

void enter(Sandbox& s, Phase phase, Instant at) {
  if (s.phase == Phase::kTerminating && phase != Phase::kDeleted) return;  // delete wins from any state
  if (s.phase == phase) return;
  s.phase = phase;
  s.phase_since = at;
}

void start_requested(Sandbox& s, const StartRequested& e) {
  s.start = e.start;
  s.start_open = true;
  s.wants_running = true;
  s.wake_pending = false;
  s.data_path.clear();
  s.reserved_at.reset();
  s.started_at.reset();
  s.rate.reset();
  s.refusal.reset();
  s.paid_until_s.reset();
  s.deferred_until.reset();
  s.stop_reason = StopReason::kNone;
  s.failure.clear();
  s.awake_because.clear();
  s.machine_busy = false;
  // A recovery tells why it is one until it is over.
  if (e.trigger != Trigger::kRecovery) s.message.clear();
  enter(s, e.trigger == Trigger::kRecovery ? Phase::kRecovering : Phase::kPending, e.at);
}

void stop_requested(Sandbox& s, const StopRequested& e) {
  s.stop_reason = e.reason;
  s.wake_pending = false;
  if (e.reason == StopReason::kUser) s.wants_running = false;
  enter(s, Phase::kStopping, e.at);
}

void released(Sandbox& s, const ReleaseRecorded& e) {
  s.start_open = false;
  s.deferred_until.reset();
  if (e.stop_reason == StopReason::kUser) s.wants_running = false;
  if (s.charged_start < e.start) s.unposted = running_cost(s, e.at);
  s.data_path.clear();
  s.reserved_at.reset();
  s.started_at.reset();
  s.rate.reset();
  if (e.stop_reason != StopReason::kNone) s.stop_reason = e.stop_reason;
  if (e.restore_point) s.restore_point = e.restore_point;
  s.failure = e.failure;
  s.message = e.message;
  s.awake_because.clear();
  s.machine_busy = false;
  if (e.failure == kNodeLost) s.lost_epoch = s.epoch;
  // A Sandbox that crashed while it stopped is stopped: its last restore point stands, and `message` says
  // what happened.
  enter(s, e.failure.empty() || s.phase == Phase::kStopping ? Phase::kStopped : Phase::kFailed, e.at);
}

}  // namespace

namespace {

void apply(Sandbox& s, const SandboxEvent& event) {
  std::visit(Overloaded{
                 [&](const SandboxCreated& e) {
                   s.uid = e.uid, s.org = e.org, s.project = e.project, s.name = e.name, s.spec = e.spec;
                   s.image_digest = e.image_digest, s.labels = e.labels, s.annotations = e.annotations;
                   s.created_at = e.at;
                   s.last_activity = e.at;
                   enter(s, Phase::kStopped, e.at);
                 },
                 [&](const StartRequested& e) { start_requested(s, e); },
                 [&](const StopRequested& e) { stop_requested(s, e); },
                 [&](const StopDeclined& e) {
                   s.last_activity = std::max(s.last_activity, e.last_activity);
                   s.stop_reason = StopReason::kNone;
                   s.wake_pending = false;
                   if (!e.because.empty()) s.awake_because = e.because;
                   enter(s, Phase::kRunning, e.at);
                 },
                 [&](const DeleteRequested& e) {
                   s.delete_reason = e.reason;
                   enter(s, Phase::kTerminating, e.at);
                 },
                 [&](const MaxCostRaised& e) {
                   s.spec.max_cost = e.max_cost;
                   if (s.refusal && s.refusal->limit == "maxCostUSD") s.refusal.reset();
                 },
                 [&](const MetadataChanged& e) {
                   s.labels = e.labels;
                   s.annotations = e.annotations;
                 },
                 [&](const FundingRecorded& e) {
                   s.rate = e.rate;
                   if (e.rate) return;
                   s.refusal = e.refusal;
                   if (!s.start_open) s.stop_reason = stop_reason_of(e.refusal);
                 },
                 [&](const WakeRecorded&) {
                   s.wake_pending = true;
                   s.wants_running = true;
                 },
                 [&](const StartDeferred& e) {
                   s.deferred_until = e.until;
                   s.deferrals = e.attempt;
                   enter(s, e.recovering ? Phase::kRecovering : Phase::kPending, e.at);
                 },
                 [&](const SlotRecorded& e) {
                   s.deferrals = 0;
                   s.epoch = e.epoch, s.machine = e.machine, s.data_path = e.data_path,
                   s.reserved_at = e.reserved_at;
                   if (s.phase == Phase::kPending)
                     enter(s, s.started_at ? Phase::kRunning : Phase::kStarting, e.reserved_at);
                 },
                 [&](const RunningRecorded& e) {
                   s.runtime = e.runtime, s.started_at = e.started_at;
                   s.last_activity = std::max(s.last_activity, e.started_at);
                   if (s.phase == Phase::kRecovering) s.message.clear();
                   if (s.phase == Phase::kStarting || s.phase == Phase::kRecovering)
                     enter(s, Phase::kRunning, e.started_at);
                 },
                 [&](const ReleaseRecorded& e) { released(s, e); },
                 [&](const PaidUntilRecorded& e) { s.paid_until_s = e.at_s; },
                 [&](const ChargeRecorded& e) {
                   s.posted = e.total;
                   s.charged_start = e.start;
                   s.unposted = Money();
                 },
                 [&](const ProcessNumbered& e) {
                   s.processes = e.number;
                   s.last_activity = std::max(s.last_activity, e.at);
                 },
                 [&](const StopWished&) {
                   s.wants_running = false;
                   s.wake_pending = false;
                 },
                 [&](const LifetimeWarned&) { s.warned = true; },
                 [&](const ActivityNoted& e) {
                   s.machine_busy = e.busy;
                   s.awake_because = e.because;
                   s.last_activity = std::max(s.last_activity, e.last_activity);
                 },
                 [&](const SandboxDeleted& e) {
                   s.start_open = false;
                   s.deferred_until.reset();
                   enter(s, Phase::kDeleted, e.at);
                 },
             },
             event);
}

// When it happened, by the clock of whoever saw it; none: it changes no condition.
Instant instant_of(const SandboxEvent& event) {
  return std::visit(Overloaded{
                        [](const SlotRecorded& e) { return e.reserved_at; },
                        [](const RunningRecorded& e) { return e.started_at; },
                        [](const PaidUntilRecorded&) { return Instant{}; },
                        [](const ChargeRecorded&) { return Instant{}; },
                        [](const auto& e) { return e.at; },
                    },
                    event);
}

}  // namespace

void SandboxAggregate::evolve(Sandbox& s, const Event& event) {
  apply(s, event);
  mark_conditions(s, std::max(instant_of(event), s.phase_since));
}

std::optional<SandboxCommand> command_of_deadline(std::string_view kind) {
  if (kind == "lifetime") return CheckLifetime{};
  if (kind == "retry") return CheckRetry{};
  if (kind == "idle") return CheckIdle{};
  if (kind == "warning") return CheckWarning{};
  return std::nullopt;
}

std::vector<Deadline> deadlines_of(const Sandbox& s) {
  std::vector<Deadline> deadlines;
  if (!exists(s) || s.phase == Phase::kTerminating) return deadlines;
  const Instant end = s.created_at + s.spec.max_lifetime;
  deadlines.push_back({"lifetime", end});
  if (!s.warned) deadlines.push_back({"warning", end - warning_lead(s.spec)});
  if (s.deferred_until) deadlines.push_back({"retry", *s.deferred_until});
  if (s.phase == Phase::kRunning && s.spec.idle_timeout > Micros(0))
    deadlines.push_back({"idle", s.last_activity + s.spec.idle_timeout});
  return deadlines;
}

int64_t money_second(Instant at) {
  return std::chrono::ceil<Seconds>(at).time_since_epoch().count();
}

Money cost_at(const Sandbox& s, Instant now) {
  const bool posted = s.charged_start == s.start;
  return s.posted + s.unposted + (posted ? Money() : running_cost(s, now));
}

std::optional<Error> standing_refusal(const Sandbox& s, const SandboxContext& context) {
  if (!s.refusal) return std::nullopt;
  const Refusal& r = *s.refusal;
  if (r.limit != "maxCostUSD" && context.funds_changed_at && *context.funds_changed_at >= r.at)
    return std::nullopt;
  const std::string what = r.reason == "InsufficientCredits" ? "Add credits" : "Raise " + r.limit;
  const std::string message =
      "The start of Sandbox \"" + s.name + "\" " + describe(r) + ". " + what + ", then try again.";
  return Error{Code::kPaymentRequired, r.reason, message, {}, {}, {}};
}

namespace {
constexpr std::string_view kPhases[] = {"None",    "Pending",     "Starting", "Running", "Stopping",
                                        "Stopped", "Terminating", "Failed",   "Deleted", "Recovering"};
constexpr std::string_view kStopReasons[] = {
    "", "User", "Idle", "InsufficientCredits", "BudgetExceeded", "MaxCostReached", "Delete"};
constexpr std::string_view kTriggers[] = {"Create", "Start", "Command", "File", "Recovery"};
}  // namespace

std::string_view to_string(Phase phase) {
  return kPhases[static_cast<size_t>(phase)];
}
std::string_view to_string(StopReason reason) {
  return kStopReasons[static_cast<size_t>(reason)];
}
std::string_view to_string(Trigger trigger) {
  return kTriggers[static_cast<size_t>(trigger)];
}

}  // namespace nodus::lifecycle
