// The Process aggregate, stream process/<uid>: one command of a Sandbox and how it ended. Pure.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/ids.hpp"

namespace nodus::lifecycle {

struct ProcessAdmitted {
  ProcessUid uid;
  SandboxUid sandbox;
  ProjectId project;
  std::string sandbox_name;
  int64_t start = 0;
  int64_t epoch = 0;
  std::string machine;  // whose reports of its end are believed
  std::string name;     // sb-hello-12
  std::vector<std::string> command;
  Micros timeout{0};
  Instant at;
  bool tty = false;
  bool stdin_open = false;  // input comes over a stream
  std::string working_dir;  // empty: the Sandbox's
};
struct ProcessEnded {
  std::string reason;  // empty: exit code 0; else of the table in spec 001
  int exit_code = 0;
  std::string message;
  std::optional<Instant> started_at;
  Instant ended_at;
  int64_t stdout_bytes = 0;
  int64_t stderr_bytes = 0;
  bool never_reached = false;  // with StartFailed: no machine took it on, so it may be asked for again
};
struct ProcessRepeated {  // a second request may be taking it to its machine
  ProcessUid uid;
};
using ProcessEvent = std::variant<ProcessAdmitted, ProcessEnded, ProcessRepeated>;

struct Process {
  ProcessAdmitted admitted;  // uid empty: does not exist
  std::optional<ProcessEnded> ended;
  bool repeated = false;
};

struct AdmitProcess {
  ProcessAdmitted admitted;
};
struct EndProcess {
  std::string machine;  // the reporter; empty: the platform itself
  int64_t epoch = 0;    // a report of another epoch is refused
  ProcessEnded ended;
};
struct RepeatProcess {};  // another request with the key of the first is about to take it to its machine
// The only request that could have taken it to its machine was refused there, or could not reach it.
struct AbandonProcess {
  std::string message;
  Instant at;
};
using ProcessCommand = std::variant<AdmitProcess, EndProcess, RepeatProcess, AbandonProcess>;

struct ProcessContext {};

struct ProcessAggregate {
  using State = Process;
  using Event = ProcessEvent;
  using Command = ProcessCommand;
  using Context = ProcessContext;
  static constexpr int kStateVersion = 1;

  // A Process ends exactly once: the first end stands, later ones are no-ops. Rejections: NotFound (a machine
  // that is not the Process's learns no more than that), StaleEpoch, Invalid (not an end of the table).
  static Result<std::vector<Event>> decide(const State&, const Command&, const Context&);
  static void evolve(State&, const Event&);
};

// One of the nine ends of spec 001, with an exit code that goes with it.
bool valid_end(const ProcessEnded& end);

}  // namespace nodus::lifecycle
