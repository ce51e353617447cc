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
constexpr int kTimedOut = 124;    // waited for longer than --wait-for or --timeout, as timeout(1) says it
constexpr int kInterrupted = 130;

struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  int in_fd = -1;  // what `in` reads, to wait for it
  bool in_is_terminal = false;
  bool quiet = false;  // no progress
  std::map<std::string, std::string> environment;
  std::function<void(Millis)> sleep;                    // tests do not wait; a signal ends it early
  std::function<int()> interrupted = [] { return 0; };  // the signal that was noted, see signals.hpp
  const Clock* clock = nullptr;
};

// The error in plain words on `err`: the sentence, each cause with its place, what to do next.
// Returns the exit code that fits.
int report(Console& console, const Error& error);
int usage_error(Console& console, const std::string& sentence);

// One line on `err` once something has lasted 2 s: "sandboxes/hello is starting; waiting for it". What ends
// sooner is not worth a word.
class Progress {
 public:
  enum class When { kLater, kAtOnce, kNever };
  Progress(Console& console, std::string sentence, When when = When::kLater);
  void waiting();

 private:
  Console& console_;
  const std::string sentence_;
  const Micros begun_;
  const When when_;
  bool shown_ = false;
};

}  // namespace nodus::cli
