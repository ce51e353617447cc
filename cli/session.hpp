// A command over a WebSocket: its input, its output and its terminal, over as many connections as it takes.
#pragma once

#include <string>
#include <vector>

#include "cli/api.hpp"
#include "cli/frames.hpp"

namespace nodus::cli {

struct SessionOptions {
  std::string sandbox;
  std::vector<std::string> command;
  std::vector<std::string> env;  // NAME=VALUE
  std::string timeout, workdir;
  bool input = false;
  bool terminal = false;
  Progress::When starting = Progress::When::kLater;  // when it is told that the Sandbox is starting
};

// Returns how the command ended. Errors: what the server refused; Unavailable/ConnectionLost when the
// connection could not be made again in time (the command goes on); Interrupted before it had begun.
Result<End> run_session(Api& api, const SessionOptions& options);

// Asks the server to end the command that we began, which ^C, without a terminal of its own, does. `name` is
// empty when the server has not said it yet: then it is the one that runs the same command line, if there is
// exactly one. Errors: NoProcess.
Result<void> cancel_command(const Api& api, std::string name, const std::string& sandbox,
                            const std::vector<std::string>& command);

// "error: the command ended with DeadlineExceeded: …", when it is more than an exit code; returns the code.
int report_end(Console& console, const End& end);

// What answers say of the command they carry.
inline constexpr const char* kProcessHeader = "X-Nodus-Process";

}  // namespace nodus::cli
