#include "services/lifecycle/domain/sandbox.hpp"

#include <algorithm>

#include "libs/base/overloaded.hpp"
#include "services/lifecycle/domain/status.hpp"

namespace nodus::lifecycle {

namespace {

using Events = std::vector<SandboxEvent>;
using Decision = Result<Events>;

std::unexpected<Error> not_found(const Sandbox& s) {
  return fail(Code::kNotFound, "NotFound",
              "There is no Sandbox named \"" + s.name +
                  "\" in this project. Create it with nodus apply or nodus create.");
}

std::unexpected<Error> terminating(const Sandbox& s) {
  return fail(Code::kConflict, "SandboxNotRunning",
              "Sandbox \"" + s.name + "\" is being deleted. Wait until it is gone, then create it again.");
}

std::unexpected<Error> lower_cap(const Sandbox& s) {
  Error error{Code::kInvalid, "Invalid", "A budget can only be raised.", {}, {}, {}};
  error.causes.push_back({"spec.maxCostUSD", "FieldValueInvalid",
                          "It is " + s.spec.max_cost->to_decimal() + " and can only be raised."});
  return std::unexpected(std::move(error));
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
    case Phase::kRecovering:
      if (!s.refusal) return Events{};
      if (auto refused = standing_refusal(s, context))
        return c.trigger == Trigger::kCreate ? Decision(Events{})
                                             : Decision(std::unexpected(std::move(*refused)));
      [[fallthrough]];  // the funds changed since: it asks again when the refused start is closed
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
  if (c.start && *c.start != s.start) return Events{};
  if (s.deferred_until)  // nothing runs: the wish alone is taken back
    return Events{ReleaseRecorded{.start = s.start,
                                  .stop_reason = c.reason,
                                  .failure = "",
                                  .message = "",
                                  .restore_point = {},
                                  .at = context.now}};
  // A stop under way is not asked for twice. But an idle stop may be declined, so every other reason
  // overtakes it. Where nothing can be stopped, a person's stop still sets spec.state and takes back a wake.
  const bool overtakes = s.stop_reason == StopReason::kIdle && c.reason != StopReason::kIdle;
  if (!s.start_open || (s.phase == Phase::kStopping && !overtakes)) {
    const bool news = c.reason == StopReason::kUser && (s.wants_running || s.wake_pending);
    return news ? Events{StopWished{context.now}} : Events{};
  }
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
  if (funding.start != s.start) return Events{};
  // A refusal is news also when the scheduler's word of the same refusal closed the start first.
  const bool late_refusal = !funding.rate && s.phase == Phase::kStopped && s.stop_reason == StopReason::kNone;
  if (!s.start_open && !late_refusal) return Events{};
  if (s.rate || (s.refusal && !funding.rate)) return Events{};
  return Events{funding};
}

// When a start that found no machine is asked for again: 1 s, doubling up to 60 s, spread by ± a quarter so
// that many Sandboxes do not come at once. The spread is a function of the uid: this core has no randomness.
StartDeferred defer(const Sandbox& s, Instant now) {
  const int attempt = s.deferrals + 1;
  const Micros base = std::min<Micros>(Seconds(60), Seconds(1) * (int64_t{1} << std::min(attempt - 1, 6)));
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : s.uid.str()) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  const Micros wait = base * 3 / 4 + base / 2 * static_cast<int64_t>(hash % 1000) / 1000;
  return {attempt, now + wait, now, s.phase == Phase::kRecovering};
}

// The start is over. What follows: the end of the Sandbox, another start, or rest.
Decision close_start(const Sandbox& s, ReleaseRecorded release, bool again, const SandboxContext& context) {
  const bool idle_delete = release.stop_reason == StopReason::kIdle && s.spec.on_idle == OnIdle::kDelete;
  const bool recovers = release.failure == kNodeLost && s.phase != Phase::kStopping &&
                        s.spec.continuity == Continuity::kSnapshotted;
  Events events{std::move(release)};
  if (s.phase == Phase::kTerminating) {
    events.push_back(SandboxDeleted{context.now});
  } else if (again) {
    events.push_back(defer(s, context.now));
  } else if (recovers) {
    events.push_back(next_start(s, Trigger::kRecovery, context.now));
  } else if (s.wake_pending) {
    events.push_back(next_start(s, Trigger::kStart, context.now));
  } else if (idle_delete) {
    events.push_back(DeleteRequested{"Idle", context.now});
    events.push_back(SandboxDeleted{context.now});
  }
  return events;
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
  if (refused && s.refusal) release.stop_reason = stop_reason_of(*s.refusal);
  // No machine in time: it is still wanted, so it asks anew, at the price of then.
  const bool wanted = s.phase == Phase::kPending || s.phase == Phase::kRecovering;
  const bool again = (c.reason == "Expired" || c.reason == "NoCapacity") && wanted && !s.refusal;
  return close_start(s, std::move(release), again, context);
}

Decision decide_release(const Sandbox& s, const RecordRelease& c, const SandboxContext& context) {
  if (!s.start_open || c.release.start != s.start) return Events{};
  return close_start(s, c.release, false, context);
}

Decision decide_activity(const Sandbox& s, const RecordActivity& c, const SandboxContext& context) {
  if (!exists(s) || c.machine != s.machine)
    return fail(Code::kNotFound, "NotFound", "There is no such Sandbox here.");
  if (c.activity.epoch != s.epoch)
    return fail(Code::kConflict, "StaleEpoch", "The report names another start of the Sandbox.");
  ActivityNoted news = c.activity;
  news.last_activity =
      std::min(news.last_activity, context.now);  // a clock that runs ahead keeps nothing awake
  const bool same =
      news.busy == s.machine_busy && news.because == s.awake_because && news.last_activity <= s.last_activity;
  if (s.phase != Phase::kRunning || same) return Events{};
  news.at = context.now;
  return Events{news};
}

void change_keys(std::map<std::string, std::string>& in, const KeyChanges& changes) {
  for (const auto& [key, value] : changes)
    if (value)
      in[key] = *value;
    else
      in.erase(key);
}

Decision decide_metadata(const Sandbox& s, const ChangeMetadata& c, const SandboxContext& context) {
  if (!exists(s)) return not_found(s);
  if (s.phase == Phase::kTerminating) return terminating(s);
  MetadataChanged news{s.labels, s.annotations, context.now};
  change_keys(news.labels, c.labels);
  change_keys(news.annotations, c.annotations);
  if (news.labels == s.labels && news.annotations == s.annotations) return Events{};
  return Events{std::move(news)};
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
            if (s.spec.max_cost && c.max_cost < *s.spec.max_cost) return lower_cap(s);
            return Events{MaxCostRaised{c.max_cost, context.now}};
          },
          [&](const ChangeMetadata& c) { return decide_metadata(s, c, context); },
          [&](const CheckRetry&) -> Decision {
            if (!s.deferred_until || *s.deferred_until > context.now) return Events{};
            const bool recovering = s.phase == Phase::kRecovering;
            return Events{next_start(s, recovering ? Trigger::kRecovery : Trigger::kStart, context.now)};
          },
          [&](const CheckWarning&) -> Decision {
            const Instant end = s.created_at + s.spec.max_lifetime;
            const bool due = context.now >= end - warning_lead(s.spec) && context.now < end;
            if (!exists(s) || s.phase == Phase::kTerminating || s.warned || !due) return Events{};
            return Events{LifetimeWarned{context.now}};
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
            return Events{ProcessNumbered{s.processes + 1, context.now}};
          },
          [&](const RecordFunding& c) { return decide_funding(s, c.funding); },
          [&](const RecordSlot& c) { return fact(s, c.slot, c.slot.epoch > s.epoch); },
          [&](const RecordRunning& c) { return fact(s, c.running, !s.started_at); },
          [&](const RecordStopDeclined& c) -> Decision {
            StopDeclined declined = c.declined;
            declined.at = context.now;
            return fact(s, declined, s.phase == Phase::kStopping && s.stop_reason == StopReason::kIdle);
          },
          [&](const RecordLapse& c) { return decide_lapse(s, c, context); },
          [&](const RecordRelease& c) { return decide_release(s, c, context); },
          [&](const RecordPaidUntil& c) { return fact(s, c.paid_until, !s.paid_until_s); },
          [&](const RecordActivity& c) { return decide_activity(s, c, context); },
          [&](const RecordCharge& c) -> Decision {
            if (s.phase == Phase::kNone || c.charge.start <= s.charged_start) return Events{};
            return Events{c.charge};
          },
      },
      command);
}

}  // namespace nodus::lifecycle
