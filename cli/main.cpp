#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "cli/commands.hpp"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  nodus::cli::install_interrupt_handler();
  const nodus::SystemClock clock;
  nodus::cli::Console console{.in = std::cin,
                              .out = std::cout,
                              .err = std::cerr,
                              .in_is_terminal = isatty(STDIN_FILENO) == 1,
                              .err_is_terminal = isatty(STDERR_FILENO) == 1,
                              .environment = {},
                              .sleep = [](nodus::Millis time) { std::this_thread::sleep_for(time); },
                              .clock = &clock};
  for (const char* name : {"NODUS_API", "NODUS_API_KEY", "NODUS_PROJECT"})
    if (const char* value = std::getenv(name)) console.environment[name] = value;
  const int code = nodus::cli::run(console, {argv + 1, argv + argc});
  std::cout.flush();
  return code;
}
