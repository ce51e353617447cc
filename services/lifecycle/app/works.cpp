#include "services/lifecycle/app/works.hpp"

#include "libs/eventlog/aggregate.hpp"
#include "services/lifecycle/adapters/codec.hpp"
#include "services/lifecycle/adapters/object_events.hpp"
#include "services/lifecycle/domain/name.hpp"

namespace nodus::lifecycle {

std::string sandbox_stream(const SandboxUid& uid) {
  return "sandbox/" + uid.str();
}
std::string process_stream(const ProcessUid& uid) {
  return "process/" + uid.str();
}
std::string name_stream(const ProjectId& project, const std::string& name) {
  return "name/" + project.str() + "/" + name;
}

namespace {

Result<Sandbox> apply_sandbox(eventlog::Unit& unit, const SandboxUid& uid, const SandboxCommand& command,
                              const SandboxContext& context) {
  auto step = eventlog::apply<SandboxAggregate, SandboxCodec>(unit, sandbox_stream(uid), command, context);
  if (!step) return std::unexpected(std::move(step.error()));
  if (step->events.empty()) return std::move(step->after);
  project_sandbox(unit, step->before, step->after);
  add_events_of(unit, step->after, step->events);
  for (const auto& event : step->events)
    if (const auto* release = std::get_if<ReleaseRecorded>(&event))
      project_release(unit, step->before, *release);
  return std::move(step->after);
}

Result<Sandbox> apply_all(eventlog::Unit& unit, const SandboxUid& uid,
                          const std::vector<SandboxCommand>& commands, const SandboxContext& context) {
  Result<Sandbox> after = fail(Code::kInternal, "Internal", "No command.");
  for (const auto& command : commands) {
    after = apply_sandbox(unit, uid, command, context);
    if (!after) return after;
  }
  return after;
}

Result<Process> apply_process(eventlog::Unit& unit, const ProcessUid& uid, const ProcessCommand& command) {
  auto step =
      eventlog::apply<ProcessAggregate, ProcessCodec>(unit, process_stream(uid), command, ProcessContext{});
  if (!step) return std::unexpected(std::move(step.error()));
  if (!step->events.empty()) project_process(unit, step->before, step->after);
  return std::move(step->after);
}

}  // namespace

eventlog::Work change_sandbox(const SandboxUid& uid, SandboxCommand command, SandboxContext context) {
  return change_sandbox(uid, std::vector{std::move(command)}, context);
}

eventlog::Work change_sandbox(const SandboxUid& uid, std::vector<SandboxCommand> commands,
                              SandboxContext context) {
  return {
      .key = "",
      .input_hash = "",
      .streams = {sandbox_stream(uid)},
      .decide = [uid, commands = std::move(commands), context](eventlog::Unit& unit) -> Result<std::string> {
        auto after = apply_all(unit, uid, commands, context);
        if (!after) return std::unexpected(std::move(after.error()));
        return SandboxCodec::encode_state(*after);
      }};
}

eventlog::Work start_sandbox(const OrgId& org, const SandboxUid& uid, std::vector<SandboxCommand> commands,
                             SandboxContext context, Quotas quotas) {
  return {.key = "",
          .input_hash = "",
          .streams = {quota_stream(org), sandbox_stream(uid)},
          .decide = [uid, commands = std::move(commands), context,
                     quotas](eventlog::Unit& unit) -> Result<std::string> {
            auto before = eventlog::load<SandboxAggregate, SandboxCodec>(unit, sandbox_stream(uid));
            if (!before) return std::unexpected(std::move(before.error()));
            auto after = apply_all(unit, uid, commands, context);
            if (!after) return std::unexpected(std::move(after.error()));
            if (auto fits = check_quota(unit, *before, *after, quotas, context.now); !fits)
              return std::unexpected(std::move(fits.error()));
            return SandboxCodec::encode_state(*after);
          }};
}

eventlog::Work change_process(const ProcessUid& uid, ProcessCommand command) {
  return {.key = "",
          .input_hash = "",
          .streams = {process_stream(uid)},
          .decide = [uid, command = std::move(command)](eventlog::Unit& unit) -> Result<std::string> {
            auto after = apply_process(unit, uid, command);
            if (!after) return std::unexpected(std::move(after.error()));
            return ProcessCodec::encode_state(*after);
          }};
}

eventlog::Work create_sandbox(CreateSandbox command, const SandboxUid& expected_holder,
                              SandboxContext context, std::string key, std::string input_hash,
                              std::string sealed_env, Quotas quotas) {
  const auto& created = command.created;
  const std::string name = name_stream(created.project, created.name);
  std::vector<std::string> streams{quota_stream(created.org), name, sandbox_stream(created.uid)};
  if (!expected_holder.empty()) streams.push_back(sandbox_stream(expected_holder));
  return {.key = std::move(key),
          .input_hash = std::move(input_hash),
          .streams = std::move(streams),
          .decide = [command = std::move(command), expected_holder, context, name, quotas,
                     sealed_env = std::move(sealed_env)](eventlog::Unit& unit) -> Result<std::string> {
            if (!expected_holder.empty()) {
              auto holder =
                  eventlog::load<SandboxAggregate, SandboxCodec>(unit, sandbox_stream(expected_holder));
              if (!holder) return std::unexpected(std::move(holder.error()));
              if (holder->phase != Phase::kDeleted)
                return fail(Code::kConflict, "NameMoved", "The name is still in use.");
            }
            const TakeName take{command.created.uid, expected_holder};
            auto taken = eventlog::apply<NameAggregate, NameCodec>(unit, name, take, NameContext{});
            if (!taken) return std::unexpected(std::move(taken.error()));
            auto after = apply_sandbox(unit, command.created.uid, command, context);
            if (!after) return std::unexpected(std::move(after.error()));
            if (auto fits = check_quota(unit, Sandbox{}, *after, quotas, context.now); !fits)
              return std::unexpected(std::move(fits.error()));
            if (!sealed_env.empty()) project_env(unit, command.created.uid, sealed_env);
            return SandboxCodec::encode_state(*after);
          }};
}

eventlog::Work admit_process(const SandboxUid& sandbox, ProcessAdmitted process, SandboxContext context,
                             std::string key, std::string input_hash,
                             std::shared_ptr<std::optional<Sandbox>> owner) {
  return {.key = std::move(key),
          .input_hash = std::move(input_hash),
          .streams = {sandbox_stream(sandbox), process_stream(process.uid)},
          .decide = [sandbox, process = std::move(process), context,
                     owner = std::move(owner)](eventlog::Unit& unit) -> Result<std::string> {
            auto numbered = apply_sandbox(unit, sandbox, NumberProcess{}, context);
            if (!numbered) return std::unexpected(std::move(numbered.error()));
            ProcessAdmitted admitted = process;
            admitted.sandbox = numbered->uid;
            admitted.sandbox_name = numbered->name;
            admitted.project = numbered->project;
            admitted.start = numbered->start;
            admitted.epoch = numbered->epoch;
            admitted.machine = numbered->machine;
            admitted.name = "sb-" + numbered->name + "-" + std::to_string(numbered->processes);
            auto after = apply_process(unit, admitted.uid, AdmitProcess{admitted});
            if (!after) return std::unexpected(std::move(after.error()));
            if (owner) *owner = std::move(*numbered);
            return ProcessCodec::encode_state(*after);
          }};
}

eventlog::Work if_version(eventlog::Work work, const SandboxUid& uid, int64_t version) {
  work.decide = [decide = std::move(work.decide), uid, version](eventlog::Unit& unit) -> Result<std::string> {
    const auto rows =
        unit.sql()->exec_params("SELECT resource_version FROM sandbox_told WHERE uid = $1", uid.str());
    if (rows.empty() || rows[0][0].as<int64_t>() != version)
      return fail(Code::kConflict, "Conflict",
                  "The Sandbox was changed since you read it. Read it again, and send your change to what it "
                  "is now.");
    return decide(unit);
  };
  return work;
}

namespace {
constexpr std::string_view kDryRun = "DryRun";
}

eventlog::Work dry_run(eventlog::Work work) {
  work.key.clear();
  work.input_hash.clear();
  work.decide = [decide = std::move(work.decide)](eventlog::Unit& unit) -> Result<std::string> {
    auto answer = decide(unit);
    if (!answer) return answer;
    return std::unexpected(Error{Code::kInternal, std::string(kDryRun), std::move(*answer), {}, {}, {}});
  };
  return work;
}

Result<std::string> dry_answer(Result<std::string> refused) {
  if (refused || refused.error().reason != kDryRun) return refused;
  return std::move(refused.error().message);
}

}  // namespace nodus::lifecycle
