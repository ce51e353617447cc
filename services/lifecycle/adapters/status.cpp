#include "services/lifecycle/adapters/status.hpp"

#include "libs/config/config.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

json::array render_conditions(const Sandbox& s) {
  json::array out;
  for (const auto& c : conditions_of(s))
    out.push_back(json::object{{"type", to_string(c.type)},
                               {"status", to_string(c.status)},
                               {"reason", c.reason},
                               {"message", c.message},
                               {"lastTransitionTime", to_rfc3339(c.since)}});
  return out;
}

std::string reason_in_words(const Sandbox& s, const NextEnd& end) {
  if (end.reason == "MaxLifetime")
    return "It is deleted " + config::format_duration(s.spec.max_lifetime) +
           " after its creation, whatever it is doing. Copy out what you need.";
  if (end.reason == "Idle" && s.phase == Phase::kRunning)
    return "Nothing has used it since " + to_rfc3339(end.at - s.spec.idle_timeout) + ".";
  if (end.reason == "MaxCostReached" && s.phase == Phase::kRunning)
    return "Then it has cost as much as spec.maxCostUSD.";
  return s.phase == Phase::kTerminating ? "It is being deleted." : "It is being stopped.";
}

json::object render_next(const Sandbox& s, const NextEnd& end) {
  return {{"action", end.action},
          {"reason", end.reason},
          {"at", to_rfc3339(end.at)},
          {"message", reason_in_words(s, end)}};
}

// What counts as its activity now; empty: nothing does.
std::string awake_because(const Sandbox& s, const Usage& usage) {
  if (s.phase != Phase::kRunning) return "";
  if (!usage.awake_because.empty()) return usage.awake_because;
  if (usage.busy) return "command";
  return s.awake_because;
}

void render_slot(const Sandbox& s, json::object& status) {
  if (s.rate) status["rate"] = s.rate->to_decimal();
  if (s.started_at) status["startedAt"] = to_rfc3339(*s.started_at);
  if (s.runtime.empty() || !s.started_at) return;
  status["runtime"] = s.runtime;
  if (s.runtime == "runc")
    status["isolation"] =
        "runc shares the host's kernel: for development and trusted code, not for hostile code.";
}

json::object render_restore_point(const RestorePoint& point, Instant now) {
  const auto age = std::chrono::floor<Seconds>(std::max(now - point.taken_at, Micros(0)));
  return {{"at", to_rfc3339(point.taken_at)},
          {"ageSeconds", int64_t{age.count()}},
          {"sizeBytes", point.size_bytes},
          {"sha256", point.sha256}};
}

}  // namespace

json::object render_status(const Sandbox& s, const Usage& usage, Instant now) {
  const bool running = s.phase == Phase::kRunning;
  json::object status{
      {"phase", to_string(s.phase)},
      {"activity", running && usage.busy ? "Busy" : "Idle"},
      {"cost", cost_at(s, now).to_decimal()},
      {"imageDigest", s.image_digest},
      {"starts", s.start},
      {"lastActivity", to_rfc3339(last_activity(s, usage))},
      {"conditions", render_conditions(s)},
      {"deletesAt", to_rfc3339(s.created_at + s.spec.max_lifetime)},
  };
  render_slot(s, status);
  if (s.stop_reason != StopReason::kNone && s.stop_reason != StopReason::kDelete)
    status["stopReason"] = to_string(s.stop_reason);
  if (!s.failure.empty()) status["reason"] = s.failure;
  if (!s.message.empty()) status["message"] = s.message;
  if (running && s.spec.idle_timeout > Micros(0) && !usage.busy)
    status["stopsAt"] = to_rfc3339(last_activity(s, usage) + s.spec.idle_timeout);
  if (auto because = awake_because(s, usage); !because.empty()) status["awakeBecause"] = std::move(because);
  if (const auto end = next_end(s, usage)) status["next"] = render_next(s, *end);
  if (s.restore_point) status["restorePoint"] = render_restore_point(*s.restore_point, now);
  return status;
}

}  // namespace nodus::lifecycle
