// The terminal of a command: a pseudo-terminal of the Sandbox, whose one end the helper holds.
#pragma once

#include <stdint.h>

#include <string>
#include <vector>

namespace nodus::helper {

struct Terminal {
  int master = -1, slave = -1;  // nonblocking; blocking. Close-on-exec
};

// It belongs to `user`. False: errno says why.
bool open_terminal(uint32_t user, uint32_t group, uint16_t rows, uint16_t columns, Terminal& terminal);

void resize_terminal(int master, uint16_t rows, uint16_t columns);

// The character that makes the line discipline send `signal` to the foreground; 0: it has none now.
char character_of(int master, int signal);
char end_of_file(int master);

// The program that was started in the terminal waits for a person: it takes single keys (editors, shells and
// interpreters do at their prompt), or it is a shell without a script.
bool is_prompt(int master, bool shell);
bool is_shell(const std::vector<std::string>& argv);

}  // namespace nodus::helper
