#include "cli/signals.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace nodus::cli {

namespace {

char interrupt_sentence[256];
char interrupt_path[4096];
volatile sig_atomic_t deferred = 0;  // how many DeferredSignals live
volatile sig_atomic_t noted = 0;
volatile sig_atomic_t resized = 0;
volatile sig_atomic_t raw_fd = -1;
termios before_raw, raw;
int pipe_ends[2] = {-1, -1};

void restore_terminal() {
  if (raw_fd >= 0) tcsetattr(raw_fd, TCSANOW, &before_raw);
}

void nudge() {
  const int kept = errno;
  if (pipe_ends[1] >= 0) [[maybe_unused]]
    const ssize_t ignored = write(pipe_ends[1], "", 1);
  errno = kept;
}

void asked_to_end(int number) {
  if (deferred > 0 && noted == 0) {
    noted = number;
    return nudge();
  }
  restore_terminal();
  [[maybe_unused]] const ssize_t ignored =
      write(STDERR_FILENO, interrupt_sentence, strlen(interrupt_sentence));
  if (interrupt_path[0]) unlink(interrupt_path);
  _exit(128 + number);
}

void window_changed(int) {
  resized = 1;
  nudge();
}

// Someone typed in this terminal while the program was stopped.
void continued(int) {
  if (raw_fd >= 0) tcsetattr(raw_fd, TCSANOW, &raw);
  window_changed(0);
}

void crashed(int number) {
  restore_terminal();
  raise(number);  // SA_RESETHAND: it now does what it does
}

void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(number, &action, nullptr);
}

}  // namespace

void install_signals() {
  if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) pipe_ends[0] = pipe_ends[1] = -1;
  // Without SA_RESTART: what sleeps or polls wakes up.
  handle(SIGINT, asked_to_end, 0);
  handle(SIGTERM, asked_to_end, 0);
  struct sigaction hangup{};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    handle(SIGHUP, asked_to_end, 0);
  handle(SIGWINCH, window_changed, SA_RESTART);
  handle(SIGCONT, continued, SA_RESTART);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT})
    handle(number, crashed, static_cast<int>(SA_RESETHAND));
  signal(SIGPIPE, SIG_IGN);
}

void on_interrupt(const std::string& sentence, const std::string& unlink_path) {
  interrupt_path[0] = '\0';
  interrupt_sentence[0] = '\0';
  strncpy(interrupt_sentence, sentence.c_str(), sizeof interrupt_sentence - 1);
  if (unlink_path.size() < sizeof interrupt_path) strcpy(interrupt_path, unlink_path.c_str());
}

DeferredSignals::DeferredSignals() {
  deferred = deferred + 1;
}
DeferredSignals::~DeferredSignals() {
  deferred = deferred - 1;
}

int signal_noted() {
  return noted;
}
int signal_pipe() {
  return pipe_ends[0];
}
void drain_signals() {
  char bytes[64];
  while (pipe_ends[0] >= 0 && read(pipe_ends[0], bytes, sizeof bytes) > 0) {
  }
}
bool take_resized() {
  const bool was = resized != 0;
  resized = 0;
  return was;
}

std::optional<TerminalSize> terminal_size(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return std::nullopt;
  return TerminalSize{size.ws_row, size.ws_col};
}

RawTerminal::RawTerminal(int fd) {
  if (tcgetattr(fd, &before_raw) != 0) return;
  raw = before_raw;
  cfmakeraw(&raw);
  raw_fd = fd;
  tcsetattr(fd, TCSANOW, &raw);
}

RawTerminal::~RawTerminal() {
  if (raw_fd < 0) return;
  // What was typed but not read belongs to the shell that gets the terminal back.
  tcsetattr(raw_fd, TCSADRAIN, &before_raw);
  raw_fd = -1;
}

}  // namespace nodus::cli
