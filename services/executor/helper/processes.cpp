#include "services/executor/helper/processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace nodus::helper {
namespace {
constexpr int kMostRounds = 64;
constexpr uint64_t kMarkBase = uint64_t{1} << 60;  // bytes: no program comes near

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
  if (const char* name = strchr(text, '('); name && name < rest)
    snprintf(entry.name, sizeof entry.name, "%.*s", static_cast<int>(rest - name - 1), name + 1);
  return true;
}

// 0: none.
uint64_t mark_of(pid_t pid) {
  char path[64], text[2048];
  snprintf(path, sizeof path, "/proc/%d/limits", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t size = 0;
  for (ssize_t got; size < sizeof text - 1 && (got = read(fd, text + size, sizeof text - 1 - size)) > 0;)
    size += static_cast<size_t>(got);
  close(fd);
  text[size] = 0;
  const char* line = strstr(text, "Max resident set");
  unsigned long long soft = 0, hard = 0;
  const bool known = line && sscanf(line, "Max resident set %llu %llu", &soft, &hard) == 2;
  return known && hard > kMarkBase ? hard - kMarkBase : 0;
}

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

struct Hunt {
  std::unordered_set<pid_t> roots, members;
  std::unordered_set<uint64_t> marks;
  std::unordered_map<pid_t, uint64_t> seen;  // marks of those looked at

  bool is_marked(pid_t pid) {
    auto known = seen.find(pid);
    if (known == seen.end()) known = seen.emplace(pid, mark_of(pid)).first;
    return marks.contains(known->second);
  }
  bool belongs(const ProcessEntry& entry) {
    return roots.contains(entry.pid) || roots.contains(entry.session) || roots.contains(entry.group) ||
           roots.contains(entry.parent) || members.contains(entry.parent) || is_marked(entry.pid);
  }
  // Adds whoever belongs to the trees, and answers who is new.
  std::vector<pid_t> grow() {
    const auto all = list_processes();
    std::vector<pid_t> found;
    for (size_t last = 1; last > 0;) {  // until nothing is added
      last = 0;
      for (const auto& entry : all) {
        if (!entry.live || entry.pid == getpid() || members.contains(entry.pid) || !belongs(entry)) continue;
        members.insert(entry.pid);
        found.push_back(entry.pid);
        ++last;
      }
    }
    return found;
  }
};
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

rlimit mark_limit(uint64_t mark) {
  return {kMarkBase + mark, kMarkBase + mark};
}

void signal_trees(const std::vector<Tree>& trees, int signal) {
  Hunt hunt;
  for (const auto& tree : trees) {
    if (tree.root <= 1) continue;
    hunt.roots.insert(tree.root);
    hunt.marks.insert(tree.mark);
  }
  if (hunt.roots.empty()) return;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto found = hunt.grow();
    if (found.empty() || signal != SIGKILL) break;
    for (const pid_t pid : found) kill(pid, SIGSTOP);
  }
  for (const pid_t pid : hunt.members) kill(pid, signal);
}

Live count_live(const std::vector<pid_t>& except) {
  Live live;
  for (const auto& entry : list_processes()) {
    if (!entry.live || entry.pid == getpid() || contains(except, entry.pid)) continue;
    if (live.count++ == 0) live.first = entry;
  }
  return live;
}

}  // namespace nodus::helper
