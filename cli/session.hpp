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

// Asks the server to end a command. ^C, without a terminal of its own, does it.
Result<void> cancel_process(Api& api, const std::string& name);

// "error: the command ended with DeadlineExceeded: …", when it is more than an exit code; returns the code.
int report_end(Console& console, const End& end);

// What answers and 101s say of the command they carry: Nodus-Process.
inline constexpr const char* kProcessHeader = "Nodus-Process";

}  // namespace nodus::cli
