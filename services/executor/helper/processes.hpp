// The processes of the Sandbox, from /proc. Everything but the helper and its file workers counts as live.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace nodus::helper {

struct ProcessEntry {
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  bool live = false;   // neither a zombie nor dead
  char name[16] = "";  // as the process calls itself: any bytes
};

std::vector<ProcessEntry> list_processes();

// A command is marked by a limit that does nothing (RLIMIT_RSS) and that its descendants inherit, whatever
// they execute and whoever becomes their parent. It takes a program that lowers this very limit to lose it.
inline constexpr int kMarkedLimit = RLIMIT_RSS;
rlimit mark_limit(uint64_t mark);

struct Tree {  // of one command
  pid_t root = 0;
  uint64_t mark = 0;
};

// Sends `signal` to the roots, to their sessions and process groups, to all that bear their marks, and to all
// that descend from any of them. SIGKILL first stops every member found until a look finds no new one, so
// that a tree which forks as fast as it can is caught whole. Bounded in rounds; a round looks at each process
// once, however many trees there are.
void signal_trees(const std::vector<Tree>& trees, int signal);

// Live processes other than the caller and `except`.
struct Live {
  uint32_t count = 0;
  ProcessEntry first;  // one of them
};
Live count_live(const std::vector<pid_t>& except);

}  // namespace nodus::helper
