// What people do with Sandboxes: create by name, stop, start, delete, run commands. All blocking; called on
// workers.
#pragma once

#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/eventlog/batcher.hpp"
#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

struct NewSandbox {
  OrgId org;
  ProjectId project;
  std::string name;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  SandboxSpec spec;
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
  std::string idempotency_key;
  std::string input_hash;
};

// The Process to run, where it runs, or the start that has to come first.
struct Admission {
  Sandbox sandbox;                 // after the trigger
  std::optional<Process> process;  // absent: the Sandbox is not running yet
};

class Sandboxes {
 public:
  Sandboxes(eventlog::Batcher& batcher, Catalog& catalog, Images& images, const Clock& clock)
      : batcher_(batcher), catalog_(catalog), images_(images), clock_(clock) {}

  // Same spec: the existing one, woken. maxCostUSD added or raised: applied, and nothing else. Else
  // Conflict/AlreadyExists with one cause for each field that differs.
  Result<Created> create(const NewSandbox& wanted);
  Result<Sandbox> trigger(const Sandbox& sandbox, Trigger trigger);
  Result<Sandbox> stop(const Sandbox& sandbox);
  Result<Sandbox> remove(const Sandbox& sandbox);
  Result<Sandbox> raise_max_cost(const Sandbox& sandbox, Money max_cost);
  Result<Admission> admit(const Sandbox& sandbox, const NewProcess& process);
  // Still refused, as a trigger would be told now?
  Result<std::optional<Error>> refusal(const Sandbox& sandbox);

 private:
  Result<Created> reconnect(const Sandbox& existing, const NewSandbox& wanted);
  Result<Sandbox> change(const Sandbox& sandbox, SandboxCommand command);
  Result<SandboxContext> context(const OrgId& org);

  eventlog::Batcher& batcher_;
  Catalog& catalog_;
  Images& images_;
  const Clock& clock_;
};

}  // namespace nodus::lifecycle
