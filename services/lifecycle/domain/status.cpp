#include "services/lifecycle/domain/status.hpp"

#include <algorithm>

namespace nodus::lifecycle {

namespace {

struct Said {
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason;
  std::string message;
};

constexpr int64_t kYearS = int64_t{366} * 24 * 3600;

bool starting_up(Phase phase) {
  return phase == Phase::kPending || phase == Phase::kStarting || phase == Phase::kRecovering;
}

Said ready(const Sandbox& s) {
  if (s.phase == Phase::kRunning) return {ConditionStatus::kTrue, "Running", ""};
  return {ConditionStatus::kFalse, std::string(to_string(s.phase)), s.message};
}

Said scheduled(const Sandbox& s) {
  if (s.reserved_at) return {ConditionStatus::kTrue, "SlotReserved", ""};
  if (s.deferred_until)
    return {
        ConditionStatus::kFalse, "NoMachine",
        "No machine had room soon enough. It is asked for again at " + to_rfc3339(*s.deferred_until) + "."};
  if (!starting_up(s.phase))
    return {ConditionStatus::kFalse, "NotWanted", "It holds no machine, and needs none."};
  if (s.rate)
    return {ConditionStatus::kFalse, "WaitingForMachine", "The start is funded; a machine is found next."};
  return {ConditionStatus::kFalse, "WaitingForFunds", "A machine is asked for when the start is funded."};
}

Said funded(const Sandbox& s) {
  if (s.rate) return {ConditionStatus::kTrue, "StartFunded", ""};
  if (s.refusal)
    return {ConditionStatus::kFalse, s.refusal->reason, "The start " + describe(*s.refusal) + "."};
  if (s.start_open || s.deferred_until)
    return {ConditionStatus::kUnknown, "Asked", "Whether the start is funded is being asked."};
  const bool full = s.spec.max_cost && s.posted + s.unposted >= *s.spec.max_cost;
  if (s.stop_reason == StopReason::kMaxCostReached && full)
    return {ConditionStatus::kFalse, "BudgetExceeded",
            "It cost as much as spec.maxCostUSD. Raise maxCostUSD, then start it again."};
  if (s.stop_reason == StopReason::kBudgetExceeded)
    return {ConditionStatus::kFalse, "BudgetExceeded",
            "A Budget reached its limit. Raise the Budget, then start it again."};
  if (s.stop_reason == StopReason::kInsufficientCredits)
    return {ConditionStatus::kFalse, "InsufficientCredits",
            "The balance could not fund the next period. Add credits, then start it again."};
  return {ConditionStatus::kUnknown, "NotAsked", "Asked when it starts."};
}

Said restorable(const Sandbox& s) {
  if (s.spec.continuity == Continuity::kEphemeral)
    return {ConditionStatus::kFalse, "Ephemeral", "Each start begins with the image."};
  if (!s.restore_point)
    return {ConditionStatus::kFalse, "NoRestorePoint",
            "Nothing was saved yet: a start begins with the image."};
  return {ConditionStatus::kTrue, "RestorePointVerified",
          "Saved at " + to_rfc3339(s.restore_point->taken_at) + "."};
}

Said said(const Sandbox& s, ConditionType type) {
  switch (type) {
    case ConditionType::kReady:
      return ready(s);
    case ConditionType::kScheduled:
      return scheduled(s);
    case ConditionType::kFunded:
      return funded(s);
    case ConditionType::kRestorable:
      return restorable(s);
  }
  return {};
}

// Where the cap is reached at the frozen rate.
std::optional<Instant> cap_instant(const Sandbox& s) {
  if (!s.spec.max_cost || !s.rate || !s.reserved_at || s.rate->pico_per_second() <= 0) return std::nullopt;
  const int128 left = (*s.spec.max_cost - s.posted - s.unposted).pico();
  const int128 seconds = std::max<int128>(0, left / s.rate->pico_per_second());
  if (seconds > kYearS) return std::nullopt;  // maxLifetime comes long before
  return from_micros((money_second(*s.reserved_at) + static_cast<int64_t>(seconds)) * 1'000'000);
}

}  // namespace

std::string_view to_string(ConditionType type) {
  constexpr std::string_view kNames[] = {"Ready", "Scheduled", "Funded", "Restorable"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view to_string(ConditionStatus status) {
  constexpr std::string_view kNames[] = {"Unknown", "True", "False"};
  return kNames[static_cast<size_t>(status)];
}

std::string describe(const Refusal& r) {
  const std::string what = r.limit == "balance" || r.limit.empty() ? "the balance" : r.limit;
  return "needs a hold of $" + r.hold_usd + " and " + what + " has $" + r.available_usd + " left";
}

std::array<Condition, kConditionTypes> conditions_of(const Sandbox& s) {
  std::array<Condition, kConditionTypes> out;
  for (size_t i = 0; i < kConditionTypes; ++i) {
    const auto type = static_cast<ConditionType>(i);
    auto [status, reason, message] = said(s, type);
    out[i] = {type, status, std::move(reason), std::move(message), s.marks[i].since};
  }
  return out;
}

void mark_conditions(Sandbox& s, Instant at) {
  for (size_t i = 0; i < kConditionTypes; ++i) {
    const auto status = said(s, static_cast<ConditionType>(i)).status;
    auto& mark = s.marks[i];
    if (mark.since != Instant{} && mark.status == status) continue;
    mark = {status, std::max(mark.since, at)};  // instants of several clocks: it never goes back
  }
}

Micros warning_lead(const SandboxSpec& spec) {
  return std::min<Micros>(spec.max_lifetime / 10, std::chrono::hours(1));
}

Instant last_activity(const Sandbox& s, const Usage& usage) {
  return std::max(s.last_activity, usage.last_activity);
}

std::optional<NextEnd> next_end(const Sandbox& s, const Usage& usage) {
  if (!exists(s)) return std::nullopt;
  if (s.phase == Phase::kTerminating) return NextEnd{"Delete", s.delete_reason, s.phase_since};
  NextEnd next{"Delete", "MaxLifetime", s.created_at + s.spec.max_lifetime};
  if (s.phase == Phase::kStopping)
    return NextEnd{"Stop", std::string(to_string(s.stop_reason)), s.phase_since};
  const auto sooner = [&](NextEnd other) {
    if (other.at < next.at) next = std::move(other);
  };
  if (s.phase == Phase::kRunning && s.spec.idle_timeout > Micros(0) && !usage.busy)
    sooner({s.spec.on_idle == OnIdle::kDelete ? "Delete" : "Stop", "Idle",
            last_activity(s, usage) + s.spec.idle_timeout});
  if (const auto cap = cap_instant(s)) sooner({"Stop", "MaxCostReached", *cap});
  return next;
}

}  // namespace nodus::lifecycle
