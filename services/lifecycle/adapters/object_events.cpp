#include "services/lifecycle/adapters/object_events.hpp"

#include "libs/base/overloaded.hpp"
#include "services/lifecycle/adapters/changes.hpp"

namespace nodus::lifecycle {

namespace {

constexpr size_t kMaxReason = 128;
constexpr size_t kMaxMessage = 1024;

struct Told {
  EventType type = EventType::kNormal;
  std::string reason;  // empty: nothing to tell
  std::string message;
};

std::string_view why(StopReason reason) {
  switch (reason) {
    case StopReason::kUser:
      return "a user asked for it";
    case StopReason::kIdle:
      return "nothing used it for spec.lifecycle.idleTimeout";
    case StopReason::kInsufficientCredits:
      return "the balance cannot fund the next period";
    case StopReason::kBudgetExceeded:
      return "a Budget of the project is full";
    case StopReason::kMaxCostReached:
      return "it has cost spec.maxCostUSD";
    case StopReason::kDelete:
      return "it is being deleted";
    case StopReason::kNone:
      break;
  }
  return "the platform ended it";
}

Told told_of_funding(const FundingRecorded& e) {
  if (e.rate)
    return {EventType::kNormal, "Funded", "The start is funded at $" + e.rate->to_decimal() + "/s."};
  return {EventType::kWarning, e.refusal.reason,
          "The start needs a hold of $" + e.refusal.hold_usd + "; " + e.refusal.limit + " has $" +
              e.refusal.available_usd + " left."};
}

Told told_of_release(const ReleaseRecorded& e) {
  if (!e.failure.empty()) return {EventType::kWarning, e.failure, e.message};
  return {EventType::kNormal, "Stopped", "It stopped: " + std::string(why(e.stop_reason)) + "."};
}

Told told_of_start(const Sandbox& s, const StartRequested& e) {
  if (e.trigger == Trigger::kRecovery && !s.restore_point)
    return {
        EventType::kWarning, "RecoveredFromImage",
        "Its machine was lost before anything was saved: it starts again from its image, without its files."};
  if (e.trigger == Trigger::kRecovery)
    return {EventType::kWarning, "Recovering",
            "Its machine was lost: it starts elsewhere with /workspace as saved at " +
                to_rfc3339(s.restore_point->taken_at) + "."};
  return {EventType::kNormal, "StartRequested",
          "A start was asked for: " + std::string(to_string(e.trigger)) + "."};
}

Told told_of(const Sandbox& after, const SandboxEvent& event) {
  const auto normal = [](std::string reason, std::string message) {
    return Told{EventType::kNormal, std::move(reason), std::move(message)};
  };
  return std::visit(
      Overloaded{
          [&](const SandboxCreated& e) {
            return normal("Created", "It was created from " + e.spec.image + ".");
          },
          [&](const StartRequested& e) { return told_of_start(after, e); },
          [&](const LifetimeWarned&) {
            return Told{EventType::kWarning, "MaxLifetimeNear",
                        "spec.lifecycle.maxLifetime deletes it with its files at " +
                            to_rfc3339(after.created_at + after.spec.max_lifetime) +
                            ". Copy out what you need."};
          },
          [&](const StopRequested& e) {
            return normal("Stopping", "It stops: " + std::string(why(e.reason)) + ".");
          },
          [&](const StopDeclined&) {
            return normal("StopDeclined", "It was used when it was to stop as idle, so it runs on.");
          },
          [&](const DeleteRequested& e) { return normal("Deleting", "It is deleted: " + e.reason + "."); },
          [&](const MaxCostRaised&) { return normal("MaxCostRaised", "spec.maxCostUSD was raised."); },
          [&](const FundingRecorded& e) { return told_of_funding(e); },
          [&](const StartDeferred&) {
            return Told{EventType::kWarning, "NoCapacity",
                        "No machine had room in time; the start is asked for again."};
          },
          [&](const SlotRecorded&) {
            return normal("Scheduled", "A machine slot is reserved; billing starts.");
          },
          [&](const RunningRecorded& e) { return normal("Started", "It runs under " + e.runtime + "."); },
          [&](const ReleaseRecorded& e) { return told_of_release(e); },
          [&](const SandboxDeleted&) { return normal("Deleted", "It is gone, with its files."); },
          [](const auto&) { return Told{}; },
      },
      event);
}

}  // namespace

ObjectRef ref_of(const Sandbox& sandbox) {
  return {sandbox.project, "Sandbox", sandbox.name, sandbox.uid.str()};
}

void add_event(eventlog::Unit& unit, const ObjectRef& object, EventType type, std::string reason,
               std::string message) {
  if (reason.size() > kMaxReason) reason.resize(kMaxReason);
  size_t size = std::min(message.size(), kMaxMessage);
  while (size > 0 && size < message.size() && (message[size] & 0xC0) == 0x80) --size;  // whole characters
  message.resize(size);
  unit.stage(EventNote{object, type == EventType::kWarning ? "Warning" : "Normal", std::move(reason),
                       std::move(message)});
}

void add_events_of(eventlog::Unit& unit, const Sandbox& after, const std::vector<SandboxEvent>& events) {
  for (const auto& event : events)
    if (auto told = told_of(after, event); !told.reason.empty())
      add_event(unit, ref_of(after), told.type, std::move(told.reason), std::move(told.message));
}

}  // namespace nodus::lifecycle
