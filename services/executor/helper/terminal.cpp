#include "services/executor/helper/terminal.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace nodus::helper {
namespace {
constexpr uint16_t kRows = 24, kColumns = 80;
constexpr char kEndOfFile = 4;

// The terminal belongs to whoever opens it, and the helper may not change owners.
bool open_as(uint32_t user, uint32_t group, Terminal& terminal) {
  if (setegid(group) < 0 || seteuid(user) < 0) return false;
  terminal.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  const int error = errno;
  const bool restored = seteuid(0) == 0 && setegid(0) == 0;
  if (!restored) abort();
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // a change of the effective user may set it
  errno = error;
  return terminal.master >= 0 && unlockpt(terminal.master) == 0;
}
}  // namespace

bool open_terminal(uint32_t user, uint32_t group, uint16_t rows, uint16_t columns, Terminal& terminal) {
  bool made = open_as(user, group, terminal);
  // Not by its path, which is the image's business.
  if (made) terminal.slave = ioctl(terminal.master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  made = made && terminal.slave >= 0;
  if (made) {
    termios mode{};
    if (tcgetattr(terminal.slave, &mode) == 0) {
      mode.c_iflag |= IUTF8;
      tcsetattr(terminal.slave, TCSANOW, &mode);
    }
    resize_terminal(terminal.master, rows ? rows : kRows, columns ? columns : kColumns);
    return true;
  }
  const int error = errno;
  if (terminal.master >= 0) close(terminal.master);
  terminal = {};
  errno = error;
  return false;
}

void resize_terminal(int master, uint16_t rows, uint16_t columns) {
  winsize size{};
  size.ws_row = rows, size.ws_col = columns;
  ioctl(master, TIOCSWINSZ, &size);  // tells the foreground
}

char character_of(int master, int signal) {
  termios mode{};
  if (tcgetattr(master, &mode) < 0 || !(mode.c_lflag & ISIG)) return 0;
  const int index = signal == SIGINT ? VINTR : signal == SIGQUIT ? VQUIT : signal == SIGTSTP ? VSUSP : -1;
  return index < 0 ? 0 : static_cast<char>(mode.c_cc[index]);
}

char end_of_file(int master) {
  termios mode{};
  return tcgetattr(master, &mode) == 0 && mode.c_cc[VEOF] ? static_cast<char>(mode.c_cc[VEOF]) : kEndOfFile;
}

bool is_prompt(int master, bool shell) {
  termios mode{};
  return shell || (tcgetattr(master, &mode) == 0 && !(mode.c_lflag & ICANON));
}

bool is_shell(const std::vector<std::string>& argv) {
  constexpr std::string_view kShells[] = {"sh",  "bash", "dash", "ash", "zsh",
                                          "ksh", "mksh", "fish", "csh", "tcsh"};
  size_t at = 0;
  const auto base = [&] {
    std::string_view name = argv[at];
    name.remove_prefix(name.rfind('/') + 1);
    if (name.starts_with('-')) name.remove_prefix(1);
    return name;
  };
  if (base() == "busybox" && argv.size() > 1) ++at;
  if (std::find(std::begin(kShells), std::end(kShells), base()) == std::end(kShells)) return false;
  // A script or a command line is work, not a prompt.
  return std::all_of(argv.begin() + static_cast<long>(at) + 1, argv.end(), [](const std::string& argument) {
    return argument.starts_with("--") ||
           (argument.size() > 1 && argument[0] == '-' && argument.find('c') == argument.npos);
  });
}

}  // namespace nodus::helper
