#include "services/lifecycle/adapters/render.hpp"

#include "libs/config/config.hpp"
#include "services/lifecycle/adapters/manifest.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

json::object strings(const std::map<std::string, std::string>& in) {
  json::object out;
  for (const auto& [key, value] : in) out[key] = value;
  return out;
}

json::object condition(std::string_view type, std::optional<bool> status, std::string_view reason,
                       std::string_view message, Instant since) {
  return {{"type", type},
          {"status", !status   ? "Unknown"
                     : *status ? "True"
                               : "False"},
          {"reason", reason},
          {"message", message},
          {"lastTransitionTime", to_rfc3339(since)}};
}

json::array conditions(const Sandbox& s) {
  json::array out;
  const bool running = s.phase == Phase::kRunning;
  out.push_back(condition("Ready", running, to_string(s.phase), running ? "" : s.message, s.phase_since));
  out.push_back(condition("Scheduled", s.reserved_at.has_value(), s.reserved_at ? "SlotReserved" : "NoSlot",
                          "", s.reserved_at.value_or(s.phase_since)));
  if (s.refusal)
    out.push_back(condition("Funded", false, s.refusal->reason,
                            "The start needs a hold of $" + s.refusal->hold_usd + "; " + s.refusal->limit +
                                " has $" + s.refusal->available_usd + " left.",
                            s.refusal->at));
  else
    out.push_back(condition("Funded", s.rate ? std::optional(true) : std::nullopt,
                            s.rate ? "StartFunded" : "NotAsked", "", s.phase_since));
  if (s.spec.continuity == Continuity::kSnapshotted)
    out.push_back(condition("Restorable", s.restore_point.has_value(),
                            s.restore_point ? "RestorePointVerified" : "NoRestorePoint", "",
                            s.restore_point ? s.restore_point->taken_at : s.created_at));
  return out;
}

}  // namespace

json::object render_sandbox(const SandboxView& view, Instant now) {
  const Sandbox& s = view.sandbox;
  const bool busy = view.busy;
  json::object status{
      {"phase", to_string(s.phase)},
      {"activity", s.phase == Phase::kRunning && busy ? "Busy" : "Idle"},
      {"cost", cost_at(s, now).to_decimal()},
      {"imageDigest", s.image_digest},
      {"starts", s.start},
      {"conditions", conditions(s)},
      {"deletesAt", to_rfc3339(s.created_at + s.spec.max_lifetime)},
  };
  if (s.rate) status["rate"] = s.rate->to_decimal();
  if (!s.runtime.empty() && s.started_at) {
    status["runtime"] = s.runtime;
    if (s.runtime == "runc")
      status["isolation"] =
          "runc shares the host's kernel: for development and trusted code, not for hostile code.";
  }
  if (s.stop_reason != StopReason::kNone && s.stop_reason != StopReason::kDelete)
    status["stopReason"] = to_string(s.stop_reason);
  if (!s.failure.empty()) status["reason"] = s.failure;
  if (!s.message.empty()) status["message"] = s.message;
  if (s.started_at) status["startedAt"] = to_rfc3339(*s.started_at);
  if (s.phase == Phase::kRunning && s.spec.idle_timeout > Micros(0) && !busy)
    status["stopsAt"] = to_rfc3339(s.last_activity + s.spec.idle_timeout);
  if (s.restore_point)
    status["restorePoint"] = {{"at", to_rfc3339(s.restore_point->taken_at)},
                              {"sizeBytes", s.restore_point->size_bytes},
                              {"sha256", s.restore_point->sha256}};
  json::object metadata{{"name", s.name},
                        {"namespace", s.project.str()},
                        {"uid", s.uid.str()},
                        {"resourceVersion", std::to_string(view.resource_version)},
                        {"generation", view.generation},
                        {"creationTimestamp", to_rfc3339(s.created_at)}};
  if (s.phase == Phase::kTerminating) metadata["deletionTimestamp"] = to_rfc3339(s.phase_since);
  if (!s.labels.empty()) metadata["labels"] = strings(s.labels);
  if (!s.annotations.empty()) metadata["annotations"] = strings(s.annotations);
  return {{"apiVersion", "nodus.dev/v1"},
          {"kind", "Sandbox"},
          {"metadata", std::move(metadata)},
          {"spec", render_spec(s.spec, s.wants_running)},
          {"status", std::move(status)}};
}

json::object render_process(const ProcessView& view) {
  const Process& p = view.process;
  json::object status{{"phase", p.ended ? "Ended" : "Running"}};
  if (p.ended) {
    status["reason"] = p.ended->reason;
    status["exitCode"] = p.ended->exit_code;
    if (!p.ended->message.empty()) status["message"] = p.ended->message;
    if (p.ended->started_at) status["startedAt"] = to_rfc3339(*p.ended->started_at);
    status["endedAt"] = to_rfc3339(p.ended->ended_at);
  }
  json::array command;
  for (const auto& argument : p.admitted.command) command.emplace_back(argument);
  return {{"apiVersion", "nodus.dev/v1"},
          {"kind", "Process"},
          {"metadata",
           {{"name", p.admitted.name},
            {"namespace", p.admitted.project.str()},
            {"uid", p.admitted.uid.str()},
            {"resourceVersion", std::to_string(view.resource_version)},
            {"creationTimestamp", to_rfc3339(p.admitted.at)}}},
          {"spec",
           {{"sandbox", p.admitted.sandbox_name},
            {"command", std::move(command)},
            {"timeout", config::format_duration(p.admitted.timeout)}}},
          {"status", std::move(status)}};
}

json::object render_event(const ObjectEvent& e) {
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata",
           {{"name", e.name},
            {"namespace", e.project.str()},
            {"uid", e.uid},
            {"resourceVersion", std::to_string(e.resource_version)},
            {"creationTimestamp", to_rfc3339(e.first)}}},
          {"involvedObject",
           {{"apiVersion", "nodus.dev/v1"},
            {"kind", e.object_kind},
            {"namespace", e.project.str()},
            {"name", e.object_name},
            {"uid", e.object_uid}}},
          {"type", e.type},
          {"reason", e.reason},
          {"message", e.message},
          {"count", e.count},
          {"firstTimestamp", to_rfc3339(e.first)},
          {"lastTimestamp", to_rfc3339(e.last)},
          {"source", {{"component", "nodus-lifecycle"}}},
          {"reportingComponent", "nodus-lifecycle"},
          {"reportingInstance", ""}};
}

std::string end_frame(const Process& p) {
  json::object end{
      {"reason", p.ended->reason}, {"exitCode", p.ended->exit_code}, {"message", p.ended->message}};
  return json::serialize(json::object{{"end", std::move(end)}, {"process", p.admitted.name}}) + "\n";
}

}  // namespace nodus::lifecycle
