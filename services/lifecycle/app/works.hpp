// The Works that change lifecycle's streams: command in, events and projections in one transaction.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "libs/eventlog/event_log.hpp"
#include "services/lifecycle/app/quotas.hpp"
#include "services/lifecycle/domain/process.hpp"
#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle {

std::string sandbox_stream(const SandboxUid& uid);
std::string process_stream(const ProcessUid& uid);
std::string name_stream(const ProjectId& project, const std::string& name);

// Writes the read models and deadlines that follow from a changed aggregate (adapters/projections.cpp).
void project_sandbox(eventlog::Unit& unit, const Sandbox& before, const Sandbox& after);
void project_env(eventlog::Unit& unit, const SandboxUid& uid, const std::string& sealed);
void project_process(eventlog::Unit& unit, const Process& before, const Process& after);
// The start is over: its Processes that have not ended are marked, and end soon (app/process_keeper.hpp).
void project_release(eventlog::Unit& unit, const Sandbox& before, const ReleaseRecorded& release);

// The answer is the encoded state after it.
eventlog::Work change_sandbox(const SandboxUid& uid, SandboxCommand command, SandboxContext context);
// Several, one after the other, in one Work; the answer is the state after the last.
eventlog::Work change_sandbox(const SandboxUid& uid, std::vector<SandboxCommand> commands,
                              SandboxContext context);
// Ends with a trigger. Also Forbidden/QuotaExceeded, Forbidden/OrganizationSuspended.
eventlog::Work start_sandbox(const OrgId& org, const SandboxUid& uid, std::vector<SandboxCommand> commands,
                             SandboxContext context, Quotas quotas);
eventlog::Work change_process(const ProcessUid& uid, ProcessCommand command);
inline eventlog::Work end_process(const ProcessUid& uid, EndProcess command) {
  return change_process(uid, std::move(command));
}

// Takes the name (which `expected_holder`, gone or empty, had) and creates the Sandbox. Conflict/NameMoved:
// look again. `sealed_env`: the values of spec.env, kept beside the log until the Sandbox is gone.
// Also what check_quota() says.
eventlog::Work create_sandbox(CreateSandbox command, const SandboxUid& expected_holder,
                              SandboxContext context, std::string key, std::string input_hash,
                              std::string sealed_env = "", Quotas quotas = {});

// Gives the Process its number and name and admits it for the Sandbox's current epoch. Answer: encoded
// Process. `owner`, if given, is set to the Sandbox as the transaction leaves it; a repeat of the key does
// not look at it and leaves it as it is.
eventlog::Work admit_process(const SandboxUid& sandbox, ProcessAdmitted process, SandboxContext context,
                             std::string key, std::string input_hash,
                             std::shared_ptr<std::optional<Sandbox>> owner = nullptr);

// The same Work, refused with Conflict/Conflict unless the Sandbox still has this resourceVersion.
eventlog::Work if_version(eventlog::Work work, const SandboxUid& uid, int64_t version);
// Decides and keeps nothing: a Work that is refused leaves nothing, so its answer comes as a refusal.
eventlog::Work dry_run(eventlog::Work work);
Result<std::string> dry_answer(Result<std::string> refused);

}  // namespace nodus::lifecycle
