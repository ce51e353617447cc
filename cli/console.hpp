// Where a run of the CLI reads and writes, and how it ends. Tests give strings instead of the terminal.
#pragma once

#include <functional>
#include <istream>
#include <map>
#include <ostream>
#include <string>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"

namespace nodus::cli {

// Exit codes; those of `exec` are the command's own.
constexpr int kOk = 0;
constexpr int kRefused = 1;       // the server said no
constexpr int kUsage = 2;         // the command line or a local file is wrong
constexpr int kUnreachable = 69;  // no answer in --retry-for (EX_UNAVAILABLE)

struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool in_is_terminal = false;
  bool err_is_terminal = false;
  std::map<std::string, std::string> environment;
  std::function<void(Millis)> sleep;  // tests do not wait
  const Clock* clock = nullptr;
};

// The error in plain words on `err`: the sentence, each cause with its place, what to do next.
// Returns the exit code that fits.
int report(Console& console, const Error& error);
int usage_error(Console& console, const std::string& sentence);

// One line on a terminal once something has lasted 2 s: "sandboxes/hello is starting; waiting for it".
class Progress {
 public:
  Progress(Console& console, std::string sentence);
  void waiting();

 private:
  Console& console_;
  const std::string sentence_;
  const Micros begun_;
  bool shown_ = false;
};

// ^C: what is written to stderr and removed from the disk before the exit with 130. Plain memory, because a
// signal handler reads it; set from one thread.
void on_interrupt(const std::string& sentence, const std::string& unlink_path = "");
void install_interrupt_handler();

}  // namespace nodus::cli
