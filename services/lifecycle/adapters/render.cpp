#include "services/lifecycle/adapters/render.hpp"

#include "libs/base/random.hpp"
#include "libs/config/config.hpp"
#include "services/lifecycle/adapters/manifest.hpp"
#include "services/lifecycle/adapters/status.hpp"
#include "services/lifecycle/domain/project.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

json::object strings(const std::map<std::string, std::string>& in) {
  json::object out;
  for (const auto& [key, value] : in) out[key] = value;
  return out;
}

}  // namespace

json::object render_sandbox(const SandboxView& view, Instant now) {
  const Sandbox& s = view.sandbox;
  json::object metadata{{"name", s.name},
                        {"namespace", project_name(s.project)},
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
          {"status", render_status(s,
                                   {.busy = view.busy || s.machine_busy,
                                    .last_activity = {},
                                    .awake_because = view.busy ? "" : s.awake_because},
                                   now)}};
}

json::object render_process(const ProcessView& view, const std::optional<OutputSizes>& kept) {
  const Process& p = view.process;
  json::object status{{"phase", p.ended ? "Ended" : "Running"}};
  if (p.ended) {
    status["reason"] = p.ended->reason;
    status["exitCode"] = p.ended->exit_code;
    if (!p.ended->message.empty()) status["message"] = p.ended->message;
    if (p.ended->started_at) status["startedAt"] = to_rfc3339(*p.ended->started_at);
    status["endedAt"] = to_rfc3339(p.ended->ended_at);
    status["output"] = {{"stdoutBytes", p.ended->stdout_bytes}, {"stderrBytes", p.ended->stderr_bytes}};
  } else if (kept) {
    status["output"] = {{"stdoutBytes", kept->stdout_bytes}, {"stderrBytes", kept->stderr_bytes}};
  }
  json::array command;
  for (const auto& argument : p.admitted.command) command.emplace_back(argument);
  json::object spec{{"sandbox", p.admitted.sandbox_name},
                    {"command", std::move(command)},
                    {"timeout", config::format_duration(p.admitted.timeout)}};
  if (p.admitted.tty) spec["tty"] = true;
  if (p.admitted.stdin_open) spec["stdin"] = true;
  if (!p.admitted.working_dir.empty()) spec["workingDir"] = p.admitted.working_dir;
  json::array owners;
  owners.push_back({{"apiVersion", "nodus.dev/v1"},
                    {"kind", "Sandbox"},
                    {"name", p.admitted.sandbox_name},
                    {"uid", p.admitted.sandbox.str()},
                    {"controller", true}});
  return {{"apiVersion", "nodus.dev/v1"},
          {"kind", "Process"},
          {"metadata",
           {{"name", p.admitted.name},
            {"namespace", project_name(p.admitted.project)},
            {"uid", p.admitted.uid.str()},
            {"resourceVersion", std::to_string(view.resource_version)},
            {"creationTimestamp", to_rfc3339(p.admitted.at)},
            {"labels", {{"nodus.dev/sandbox", p.admitted.sandbox_name}}},
            {"ownerReferences", std::move(owners)}}},
          {"spec", std::move(spec)},
          {"status", std::move(status)}};
}

json::object render_event(const ObjectEvent& e) {
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata",
           {{"name", e.name},
            {"namespace", project_name(e.project)},
            {"uid", e.uid},
            {"resourceVersion", std::to_string(e.resource_version)},
            {"creationTimestamp", to_rfc3339(e.first)}}},
          {"involvedObject",
           {{"apiVersion", "nodus.dev/v1"},
            {"kind", e.object_kind},
            {"namespace", project_name(e.project)},
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

std::string frame_line(const OutputFrame& frame) {
  return std::string("{\"stream\":\"") + (frame.stream == 1 ? "stdout" : "stderr") +
         "\",\"offset\":" + std::to_string(frame.offset) + ",\"data\":\"" + to_base64(frame.data) + "\"}\n";
}

std::string end_line(const StreamEnd& end, const std::string& process) {
  json::object said{{"reason", end.reason}, {"exitCode", end.exit_code}, {"message", end.message}};
  return json::serialize(json::object{{"end", std::move(said)}, {"process", process}}) + "\n";
}

}  // namespace nodus::lifecycle
