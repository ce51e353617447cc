#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <iostream>

#include "cli/commands.hpp"
#include "cli/signals.hpp"

namespace {

// A signal ends it early.
void sleep_once(nodus::Millis time) {
  const timespec duration{time.count() / 1000, time.count() % 1000 * 1'000'000};
  nanosleep(&duration, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  nodus::cli::install_signals();
  const nodus::SystemClock clock;
  nodus::cli::Console console{.in = std::cin,
                              .out = std::cout,
                              .err = std::cerr,
                              .in_fd = STDIN_FILENO,
                              .in_is_terminal = isatty(STDIN_FILENO) == 1,
                              .environment = {},
                              .sleep = sleep_once,
                              .interrupted = nodus::cli::signal_noted,
                              .clock = &clock};
  for (const char* name : {"NODUS_API", "NODUS_API_KEY", "NODUS_PROJECT", "TERM", "COMP_LINE", "COMP_POINT"})
    if (const char* value = std::getenv(name)) console.environment[name] = value;
  const int code = nodus::cli::run(console, {argv + 1, argv + argc});
  std::cout.flush();
  return code;
}
