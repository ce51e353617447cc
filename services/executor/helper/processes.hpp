// The processes of the Sandbox, from /proc. Everything but the helper and its file workers counts as live.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace nodus::helper {

struct ProcessEntry {
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  bool live = false;  // neither a zombie nor dead
};

std::vector<ProcessEntry> list_processes();

// Sends `signal` to `root`, to its session and process group, and to all that descend from any of them.
// SIGKILL first stops every member found until a look finds no new one, so that a tree which forks as fast as
// it can is caught whole. Bounded in rounds.
void signal_tree(pid_t root, int signal);

// Live processes other than the caller and `except`.
uint32_t count_live(const std::vector<pid_t>& except);

}  // namespace nodus::helper
