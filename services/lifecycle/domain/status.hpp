// What can be said of a Sandbox's state: its conditions, and when and why it stops or is deleted next. Pure.
// Source: spec 001, "Create a Sandbox" and "Stop, start and wake".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle {

std::string_view to_string(ConditionType type);
std::string_view to_string(ConditionStatus status);

// Ready: it runs. Scheduled: a machine is reserved for it. Funded: what metering said of the start under way,
// or why the last one ended for money. Restorable: a start gives /workspace back.
struct Condition {
  ConditionType type = ConditionType::kReady;
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason;   // CamelCase
  std::string message;  // may be empty
  Instant since;        // when `status` last changed
};
std::array<Condition, kConditionTypes> conditions_of(const Sandbox& sandbox);

// What is known besides the state: rows, not events.
struct Usage {
  bool busy = false;          // a command runs, or the machine says that something does
  Instant last_activity;      // the newest known; may be older than the state's own
  std::string awake_because;  // "command sb-hello-12", "process 42 (node)"; empty: nothing known
};

// The end that comes next if nothing changes. `at` in the past: it is under way, or overdue.
struct NextEnd {
  std::string_view action;  // Stop | Delete
  std::string reason;       // a stopReason, or MaxLifetime
  Instant at;
};
std::optional<NextEnd> next_end(const Sandbox& sandbox, const Usage& usage);

// The newest activity that lifecycle knows of.
Instant last_activity(const Sandbox& sandbox, const Usage& usage);

// How long before maxLifetime ends a Sandbox it is warned of: a tenth of it, at most an hour.
Micros warning_lead(const SandboxSpec& spec);

// How a refusal reads, without a full stop: "needs a hold of $1 and the balance has $0.5 left".
std::string describe(const Refusal& refusal);

// Sets the marks of the conditions whose status changed with an event of `at`.
void mark_conditions(Sandbox& sandbox, Instant at);

}  // namespace nodus::lifecycle
