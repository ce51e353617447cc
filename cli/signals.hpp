// What ^C and its like do, and the terminal that must be left as it was found. A process has one of each, so
// this is state of the process; plain memory, because signal handlers read it. Set from one thread.
#pragma once

#include <optional>
#include <string>

namespace nodus::cli {

// At the start of the program. Until told otherwise, ^C ends it with 130.
void install_signals();

// What is written to stderr and removed from the disk before a signal ends the program.
void on_interrupt(const std::string& sentence, const std::string& unlink_path = "");

// While one lives, the first ^C, TERM or HUP is only noted, so that what is under way ends in order; a second
// one ends the program.
class DeferredSignals {
 public:
  DeferredSignals();
  ~DeferredSignals();
  DeferredSignals(const DeferredSignals&) = delete;
};
int signal_noted();    // its number, or 0
int signal_pipe();     // readable when a signal was noted or the window changed
void drain_signals();  // of the pipe
bool take_resized();   // whether the window changed since the last call

struct TerminalSize {
  int rows = 24, columns = 80;
  bool operator==(const TerminalSize&) const = default;
};
std::optional<TerminalSize> terminal_size(int fd);

// While one lives, the terminal hands on every key as it is typed, ^C too. Whatever ends the program, but for
// SIGKILL, leaves the terminal as it was.
class RawTerminal {
 public:
  explicit RawTerminal(int fd);
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
};

}  // namespace nodus::cli
