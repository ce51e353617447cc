#include "services/executor/helper/processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

namespace nodus::helper {
namespace {
constexpr int kMostRounds = 64;

bool read_entry(pid_t pid, ProcessEntry& entry) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return false;
  text[size] = 0;
  const char* rest = strrchr(text, ')');  // the name before it may hold anything
  char state = 0;
  if (!rest || sscanf(rest + 1, " %c %d %d %d", &state, &entry.parent, &entry.group, &entry.session) != 4)
    return false;
  entry.pid = pid;
  entry.live = state != 'Z' && state != 'X';
  return true;
}

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// Adds to `members` whoever belongs to the tree; answers how many are new.
size_t grow(pid_t root, std::vector<pid_t>& members) {
  const auto all = list_processes();
  const size_t before = members.size();
  for (size_t last = before + 1; last != members.size();) {  // until nothing is added
    last = members.size();
    for (const auto& entry : all) {
      if (!entry.live || entry.pid == getpid() || contains(members, entry.pid)) continue;
      if (entry.pid == root || entry.session == root || entry.group == root || entry.parent == root ||
          contains(members, entry.parent))
        members.push_back(entry.pid);
    }
  }
  return members.size() - before;
}
}  // namespace

std::vector<ProcessEntry> list_processes() {
  std::vector<ProcessEntry> entries;
  DIR* dir = opendir("/proc");
  if (!dir) return entries;
  while (const dirent* item = readdir(dir)) {
    char* end = nullptr;
    const long pid = strtol(item->d_name, &end, 10);
    ProcessEntry entry;
    if (pid > 0 && *end == 0 && read_entry(static_cast<pid_t>(pid), entry)) entries.push_back(entry);
  }
  closedir(dir);
  return entries;
}

void signal_tree(pid_t root, int signal) {
  if (root <= 1) return;
  std::vector<pid_t> members;
  if (signal == SIGKILL) {
    for (int round = 0; round < kMostRounds; ++round) {
      const size_t known = members.size();
      if (grow(root, members) == 0) break;
      for (size_t i = known; i < members.size(); ++i) kill(members[i], SIGSTOP);
    }
  } else {
    grow(root, members);
  }
  for (pid_t pid : members) kill(pid, signal);
}

uint32_t count_live(const std::vector<pid_t>& except) {
  uint32_t live = 0;
  for (const auto& entry : list_processes())
    live += entry.live && entry.pid != getpid() && !contains(except, entry.pid);
  return live;
}

}  // namespace nodus::helper
