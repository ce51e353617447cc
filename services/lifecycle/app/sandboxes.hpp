// What people do with Sandboxes: create by name, stop, start, delete, run commands. All blocking; called on
// workers.
#pragma once

#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/eventlog/batcher.hpp"
#include "services/lifecycle/app/ports.hpp"
#include "services/lifecycle/app/quotas.hpp"

namespace nodus::lifecycle {

struct NewSandbox {
  OrgId org;
  ProjectId project;
  std::string name;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  SandboxSpec spec;                        // its env is filled in from `env`
  std::map<std::string, std::string> env;  // spec.env with its values
  bool run = true;
  std::string idempotency_key;  // of the client; empty: none
  std::string input_hash;
};

struct Created {
  Sandbox sandbox;
  bool created = false;  // else it was there before
};

struct NewProcess {
  std::vector<std::string> command;
  Micros timeout{std::chrono::minutes(10)};
  bool tty = false;
  bool stdin_open = false;  // input comes over a stream
  std::string working_dir;  // empty: the Sandbox's
  std::string idempotency_key;
  std::string input_hash;
};

// The Process to run, where it runs, or the start that has to come first.
struct Admission {
  Sandbox sandbox;                         // after the trigger
  std::optional<Process> process;          // absent: the Sandbox is not running yet
  std::map<std::string, std::string> env;  // spec.env, with `process`: the command's own variables win
};

// How a change is made.
struct Terms {
  bool dry_run = false;                     // everything is checked and decided, nothing is kept
  std::optional<int64_t> resource_version;  // Conflict/Conflict unless the Sandbox still has it
};

class Sandboxes {
 public:
  Sandboxes(eventlog::Batcher& batcher, Catalog& catalog, Images& images, Environment& environment,
            const Clock& clock, Quotas quotas = {})
      : batcher_(batcher),
        catalog_(catalog),
        images_(images),
        environment_(environment),
        clock_(clock),
        quotas_(quotas) {}

  // The same, for calls under these terms.
  Sandboxes with(Terms terms) const {
    Sandboxes out = *this;
    out.terms_ = terms;
    return out;
  }

  // Same spec: the existing one, woken. maxCostUSD added or raised: applied, and nothing else. Else
  // Conflict/AlreadyExists with one cause for each field that differs. Being deleted:
  // Conflict/SandboxNotRunning. Repeated with its key after the Sandbox was deleted:
  // Conflict/IdempotencyKeyReused.
  Result<Created> create(const NewSandbox& wanted);
  Result<Sandbox> trigger(const Sandbox& sandbox, Trigger trigger);
  Result<Sandbox> stop(const Sandbox& sandbox);
  Result<Sandbox> remove(const Sandbox& sandbox);
  Result<Sandbox> raise_max_cost(const Sandbox& sandbox, Money max_cost);
  // What `wanted` says instead of what is there, all of it or nothing. Labels, annotations and
  // spec.maxCostUSD (raised) may differ, and spec.state, which `run` starts or stops when it is given.
  // Invalid, with a cause for each other field. The value "***" of a variable is the one that it has.
  Result<Sandbox> replace(const Sandbox& existing, const NewSandbox& wanted, std::optional<bool> run);
  // With a key that was used before: the Process of then, unless that one never reached a machine.
  Result<Admission> admit(const Sandbox& sandbox, const NewProcess& process);
  // The values of spec.env; names and digests are in the spec.
  Result<std::map<std::string, std::string>> env_of(const Sandbox& sandbox);
  // Of a body that may hold secrets, for NewSandbox and NewProcess.
  std::string input_hash(const std::string& body) { return environment_.input_hash(body); }
  // Its only request could not hand it to its machine: it ends StartFailed, and never starts.
  void abandon(const Process& process, const std::string& message);
  // Still refused, as a trigger would be told now?
  Result<std::optional<Error>> refusal(const Sandbox& sandbox);

 private:
  // Conflict/NameMoved: the name is not free, or no longer `last_holder`'s.
  Result<Created> create_new(const NewSandbox& wanted, const SandboxUid& last_holder);
  // `owner`: as the admission left it; nothing when a repeat was answered.
  Result<Process> admit_once(const Sandbox& sandbox, const NewProcess& process, int attempt,
                             std::optional<Sandbox>& owner);
  Result<Created> reconnect(const Sandbox& existing, const NewSandbox& wanted);
  Result<Sandbox> change(const Sandbox& sandbox, std::vector<SandboxCommand> commands);
  Result<Sandbox> start(const Sandbox& sandbox, std::vector<SandboxCommand> commands, Trigger kind);
  Result<std::string> run(eventlog::Work work, const SandboxUid& uid);
  Result<SandboxContext> context(const OrgId& org);

  eventlog::Batcher& batcher_;
  Catalog& catalog_;
  Images& images_;
  Environment& environment_;
  const Clock& clock_;
  Terms terms_;
  const Quotas quotas_;  // of an organization that has none of its own
};

}  // namespace nodus::lifecycle
