// Runs a program: no shell, a session of its own, only the descriptors named here, a deadline and a limit on
// what is kept of its output.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"

namespace nodus::linux {

struct Command {
  std::vector<std::string> argv;         // argv[0] is a path, or is looked up in PATH
  std::vector<std::string> environment;  // "NAME=value"; nothing is inherited but PATH
  std::string output_file;               // stdout and stderr are appended here instead of collected
  Millis deadline{30'000};               // then SIGKILL to it (not to what it left behind)
  size_t output_limit = 64 * 1024;       // of stdout and of stderr; the rest is dropped
  std::function<bool()> cancelled;       // asked now and then; true: SIGKILL, as if the deadline had passed
};

struct Outcome {
  int exit_code = 0;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// An error: it could not be started, or the deadline passed (DeadlineExceeded/CommandTimedOut).
Result<Outcome> run(const Command& command);
// The same; an exit code other than 0 is an error, with the end of its stderr as message.
Result<Outcome> run_checked(const Command& command);

}  // namespace nodus::linux
