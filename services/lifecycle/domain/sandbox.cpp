#include "services/lifecycle/domain/sandbox.hpp"

#include <algorithm>

#include "libs/base/check.hpp"

namespace nodus::lifecycle {

namespace {

using Events = std::vector<SandboxEvent>;
using Decision = Result<Events>;

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

bool exists(const Sandbox& s) {
  return s.phase != Phase::kNone && s.phase != Phase::kDeleted;
}

std::unexpected<Error> not_found(const Sandbox& s) {
  return fail(Code::kNotFound, "NotFound",
              "There is no Sandbox named \"" + s.name +
                  "\" in this project. Create it with nodus apply or nodus create.");
}

std::unexpected<Error> terminating(const Sandbox& s) {
  return fail(Code::kConflict, "SandboxNotRunning",
              "Sandbox \"" + s.name + "\" is being deleted. Wait until it is gone, then create it again.");
}

StartRequested next_start(const Sandbox& s, Trigger trigger, Instant now) {
  return {.start = s.start + 1, .trigger = trigger, .spent = s.posted + s.unposted, .at = now};
}

Decision decide_create(const Sandbox& s, const CreateSandbox& c, const SandboxContext& context) {
  if (s.phase != Phase::kNone) return Events{};
  Events events{c.created};
  if (c.run)
    events.push_back(StartRequested{.start = 1, .trigger = Trigger::kCreate, .spent = {}, .at = context.now});
  return events;
}

Decision decide_trigger(const Sandbox& s, const TriggerStart& c, const SandboxContext& context) {
  const bool command = c.trigger == Trigger::kCommand || c.trigger == Trigger::kFile;
  switch (s.phase) {
    case Phase::kNone:
    case Phase::kDeleted:
      return not_found(s);
    case Phase::kTerminating:
      return terminating(s);
    case Phase::kFailed:
      if (c.trigger == Trigger::kCreate) return Events{};
      if (command)
        return fail(Code::kConflict, "SandboxFailed",
                    "Sandbox \"" + s.name + "\" failed: " + s.failure + ". " + s.message +
                        " Start it again with nodus start sb/" + s.name + ", or delete it.");
      return Events{next_start(s, c.trigger, context.now)};
    case Phase::kStopped:
      // A create by name returns the Sandbox as it is; the others are told which numbers refused.
      if (auto refused = standing_refusal(s, context))
        return c.trigger == Trigger::kCreate ? Decision(Events{})
                                             : Decision(std::unexpected(std::move(*refused)));
      return Events{next_start(s, c.trigger, context.now)};
    case Phase::kPending:
      if (auto refused = standing_refusal(s, context); refused && c.trigger != Trigger::kCreate)
        return std::unexpected(std::move(*refused));
      return Events{};
    case Phase::kStopping:
      if (s.wake_pending) return Events{};
      return Events{WakeRecorded{c.trigger, context.now}};
    case Phase::kStarting:
    case Phase::kRunning:
      return Events{};
  }
  return Events{};
}

Decision decide_stop(const Sandbox& s, const RequestStop& c, const SandboxContext& context) {
  if (!exists(s)) return c.start ? Decision(Events{}) : Decision(not_found(s));
  if (s.phase == Phase::kTerminating) return c.start ? Decision(Events{}) : Decision(terminating(s));
  if (!s.start_open || (c.start && *c.start != s.start)) return Events{};
  // A stop under way is not asked for twice, but a person's stop takes back a wake that came in between.
  if (s.phase == Phase::kStopping && !(s.wake_pending && c.reason == StopReason::kUser)) return Events{};
  return Events{StopRequested{.start = s.start, .reason = c.reason, .idle_since = {}, .at = context.now}};
}

Decision decide_delete(const Sandbox& s, const std::string& reason, const SandboxContext& context) {
  if (!exists(s)) return not_found(s);
  if (s.phase == Phase::kTerminating) return Events{};
  Events events{DeleteRequested{reason, context.now}};
  if (s.start_open)
    events.push_back(
        StopRequested{.start = s.start, .reason = StopReason::kDelete, .idle_since = {}, .at = context.now});
  else
    events.push_back(SandboxDeleted{context.now});
  return events;
}

Decision decide_idle(const Sandbox& s, const SandboxContext& context) {
  if (s.phase != Phase::kRunning || s.spec.idle_timeout == Micros(0)) return Events{};
  if (s.last_activity + s.spec.idle_timeout > context.now) return Events{};
  return Events{StopRequested{.start = s.start,
                              .reason = StopReason::kIdle,
                              .idle_since = context.now - s.spec.idle_timeout,
                              .at = context.now}};
}

Decision decide_funding(const Sandbox& s, const FundingRecorded& funding) {
  if (!s.start_open || funding.start != s.start) return Events{};
  if (s.rate || (s.refusal && !funding.rate)) return Events{};
  return Events{funding};
}

// The start is over. What follows: the end of the Sandbox, another start, or rest.
Decision close_start(const Sandbox& s, ReleaseRecorded release, bool again, const SandboxContext& context) {
  const bool idle_delete = release.stop_reason == StopReason::kIdle && s.spec.on_idle == OnIdle::kDelete;
  Events events{std::move(release)};
  if (s.phase == Phase::kTerminating) {
    events.push_back(SandboxDeleted{context.now});
  } else if (again || s.wake_pending) {
    auto next = next_start(s, Trigger::kStart, context.now);
    events.push_back(next);
  } else if (idle_delete) {
    events.push_back(DeleteRequested{"Idle", context.now});
    events.push_back(SandboxDeleted{context.now});
  }
  return events;
}

StopReason reason_of(const Refusal& refusal) {
  if (refusal.reason == "InsufficientCredits") return StopReason::kInsufficientCredits;
  return refusal.limit == "maxCostUSD" ? StopReason::kMaxCostReached : StopReason::kBudgetExceeded;
}

Decision decide_lapse(const Sandbox& s, const RecordLapse& c, const SandboxContext& context) {
  if (!s.start_open || c.start != s.start) return Events{};
  ReleaseRecorded release{.start = c.start,
                          .stop_reason = c.stop_reason,
                          .failure = "",
                          .message = "",
                          .restore_point = {},
                          .at = context.now};
  const bool refused = c.reason == "Refused";
  if (refused && s.refusal) release.stop_reason = reason_of(*s.refusal);
  // No machine in time: it is still wanted, so it asks anew, at the price of then.
  const bool again = (c.reason == "Expired" || c.reason == "NoCapacity") && s.wants_running && !s.refusal;
  return close_start(s, std::move(release), again, context);
}

Decision decide_release(const Sandbox& s, const RecordRelease& c, const SandboxContext& context) {
  if (!s.start_open || c.release.start != s.start) return Events{};
  return close_start(s, c.release, false, context);
}

// Facts of the start under way, in any order and any number of times.
template <class Event>
Decision fact(const Sandbox& s, const Event& event, bool fresh) {
  if (!s.start_open || event.start != s.start || !fresh) return Events{};
  return Events{event};
}

}  // namespace

Result<Events> SandboxAggregate::decide(const Sandbox& s, const Command& command, const Context& context) {
  return std::visit(
      Overloaded{
          [&](const CreateSandbox& c) { return decide_create(s, c, context); },
          [&](const TriggerStart& c) { return decide_trigger(s, c, context); },
          [&](const RequestStop& c) { return decide_stop(s, c, context); },
          [&](const DeleteSandbox& c) { return decide_delete(s, c.reason, context); },
          [&](const RaiseMaxCost& c) -> Decision {
            if (!exists(s)) return not_found(s);
            if (s.phase == Phase::kTerminating) return terminating(s);
            if (s.spec.max_cost == c.max_cost) return Events{};
            return Events{MaxCostRaised{c.max_cost, context.now}};
          },
          [&](const CheckIdle&) { return decide_idle(s, context); },
          [&](const CheckLifetime&) -> Decision {
            if (!exists(s) || s.created_at + s.spec.max_lifetime > context.now) return Events{};
            return decide_delete(s, "MaxLifetime", context);
          },
          [&](const NumberProcess&) -> Decision {
            if (!exists(s)) return not_found(s);
            if (s.phase != Phase::kRunning)
              return fail(Code::kConflict, "SandboxNotRunning", "Sandbox \"" + s.name + "\" is not running.");
            return Events{ProcessNumbered{s.processes + 1}};
          },
          [&](const RecordFunding& c) { return decide_funding(s, c.funding); },
          [&](const RecordSlot& c) { return fact(s, c.slot, c.slot.epoch > s.epoch); },
          [&](const RecordRunning& c) { return fact(s, c.running, !s.started_at); },
          [&](const RecordStopDeclined& c) { return fact(s, c.declined, s.phase == Phase::kStopping); },
          [&](const RecordLapse& c) { return decide_lapse(s, c, context); },
          [&](const RecordRelease& c) { return decide_release(s, c, context); },
          [&](const RecordCharge& c) -> Decision {
            if (s.phase == Phase::kNone || c.charge.start <= s.charged_start) return Events{};
            return Events{c.charge};
          },
      },
      command);
}

namespace {

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
  s.stop_reason = StopReason::kNone;
  s.failure.clear();
  s.message.clear();
  enter(s, Phase::kPending, e.at);
}

void stop_requested(Sandbox& s, const StopRequested& e) {
  s.stop_reason = e.reason;
  s.wake_pending = false;
  if (e.reason == StopReason::kUser) s.wants_running = false;
  enter(s, Phase::kStopping, e.at);
}

void released(Sandbox& s, const ReleaseRecorded& e) {
  s.start_open = false;
  if (s.rate && s.reserved_at && s.charged_start < e.start)
    s.unposted = *s.rate * std::max<int64_t>(0, money_second(e.at) - money_second(*s.reserved_at));
  s.data_path.clear();
  s.reserved_at.reset();
  s.started_at.reset();
  s.rate.reset();
  if (e.stop_reason != StopReason::kNone) s.stop_reason = e.stop_reason;
  if (e.restore_point) s.restore_point = e.restore_point;
  s.failure = e.failure;
  s.message = e.message;
  // A Sandbox that crashed while it stopped is stopped: its last restore point stands, and `message` says
  // what happened.
  enter(s, e.failure.empty() || s.phase == Phase::kStopping ? Phase::kStopped : Phase::kFailed, e.at);
}

}  // namespace

void SandboxAggregate::evolve(Sandbox& s, const Event& event) {
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
                   enter(s, Phase::kRunning, e.last_activity);
                 },
                 [&](const DeleteRequested& e) { enter(s, Phase::kTerminating, e.at); },
                 [&](const MaxCostRaised& e) {
                   s.spec.max_cost = e.max_cost;
                   if (s.refusal && s.refusal->limit == "maxCostUSD") s.refusal.reset();
                 },
                 [&](const FundingRecorded& e) {
                   s.rate = e.rate;
                   if (!e.rate) s.refusal = e.refusal;
                 },
                 [&](const WakeRecorded&) {
                   s.wake_pending = true;
                   s.wants_running = true;
                 },
                 [&](const SlotRecorded& e) {
                   s.epoch = e.epoch, s.machine = e.machine, s.data_path = e.data_path,
                   s.reserved_at = e.reserved_at;
                   if (s.phase == Phase::kPending) enter(s, Phase::kStarting, e.reserved_at);
                 },
                 [&](const RunningRecorded& e) {
                   s.runtime = e.runtime, s.started_at = e.started_at;
                   s.last_activity = std::max(s.last_activity, e.started_at);
                   if (s.phase == Phase::kStarting) enter(s, Phase::kRunning, e.started_at);
                 },
                 [&](const ReleaseRecorded& e) { released(s, e); },
                 [&](const ChargeRecorded& e) {
                   s.posted = e.total;
                   s.charged_start = e.start;
                   s.unposted = Money();
                 },
                 [&](const ProcessNumbered& e) { s.processes = e.number; },
                 [&](const SandboxDeleted& e) {
                   s.start_open = false;
                   enter(s, Phase::kDeleted, e.at);
                 },
             },
             event);
}

std::vector<Deadline> deadlines_of(const Sandbox& s) {
  std::vector<Deadline> deadlines;
  if (!exists(s) || s.phase == Phase::kTerminating) return deadlines;
  deadlines.push_back({"lifetime", s.created_at + s.spec.max_lifetime});
  if (s.phase == Phase::kRunning && s.spec.idle_timeout > Micros(0))
    deadlines.push_back({"idle", s.last_activity + s.spec.idle_timeout});
  return deadlines;
}

int64_t money_second(Instant at) {
  return std::chrono::ceil<Seconds>(at).time_since_epoch().count();
}

Money cost_at(const Sandbox& s, Instant now) {
  if (!s.rate || !s.reserved_at || s.charged_start == s.start) return s.posted + s.unposted;
  return s.posted + *s.rate * std::max<int64_t>(0, money_second(now) - money_second(*s.reserved_at));
}

std::optional<Error> standing_refusal(const Sandbox& s, const SandboxContext& context) {
  if (!s.refusal) return std::nullopt;
  const Refusal& r = *s.refusal;
  if (r.limit != "maxCostUSD" && context.funds_changed_at && *context.funds_changed_at >= r.at)
    return std::nullopt;
  std::string message;
  if (r.reason == "InsufficientCredits")
    message = "The start of Sandbox \"" + s.name + "\" needs a hold of $" + r.hold_usd +
              " and the balance has $" + r.available_usd + " left. Add credits, then try again.";
  else
    message = "The start of Sandbox \"" + s.name + "\" needs a hold of $" + r.hold_usd + " and " + r.limit +
              " has $" + r.available_usd + " left. Raise " + r.limit + ", then try again.";
  return Error{Code::kPaymentRequired, r.reason, message, {}, {}, {}};
}

namespace {
constexpr std::string_view kPhases[] = {"None",    "Pending",     "Starting", "Running", "Stopping",
                                        "Stopped", "Terminating", "Failed",   "Deleted"};
constexpr std::string_view kStopReasons[] = {
    "", "User", "Idle", "InsufficientCredits", "BudgetExceeded", "MaxCostReached", "Delete"};
constexpr std::string_view kTriggers[] = {"Create", "Start", "Command", "File"};
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
