#include "services/executor/adapters/linux/cgroup.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <sstream>
#include <thread>

#include "libs/linux/files.hpp"
#include "libs/linux/system_error.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;

static const fs::path kRoot = "/sys/fs/cgroup";

Cgroup::Cgroup(std::string parent) : parent_(std::move(parent)) {}

static bool is_v2() {
  return ::access((kRoot / "cgroup.controllers").c_str(), F_OK) == 0;
}

std::vector<fs::path> Cgroup::parents() const {
  const std::string name = parent_.substr(1);
  if (is_v2()) return {kRoot / name};
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(kRoot, error), end; !error && it != end; it.increment(error))
    if (it->is_directory(error) && !it->is_symlink(error)) found.push_back(it->path() / name);
  return found;
}

Result<void> Cgroup::check() const {
  const auto missing = [](const std::string& what) {
    return fail(Code::kUnavailable, "LayerMissing",
                "The cgroup limit on " + what + " cannot be set on this machine.");
  };
  if (is_v2()) {
    auto controllers = linux::read_file(kRoot / "cgroup.controllers");
    for (const char* name : {"cpu", "memory", "pids"})
      if (!controllers || (" " + *controllers).find(std::string(" ") + name) == std::string::npos)
        return missing(name);
    return {};
  }
  const std::string name = parent_.substr(1) + "/check";
  for (const auto& [controller, file] :
       {std::pair("cpu", "cpu.cfs_quota_us"), std::pair("memory", "memory.limit_in_bytes"),
        std::pair("pids", "pids.max")}) {
    const auto group = kRoot / controller / name;
    auto made = linux::make_directories(group, 0755);
    if (!made || ::access((group / file).c_str(), W_OK) != 0) return missing(controller);
    ::rmdir(group.c_str());
  }
  return {};
}

Result<void> Cgroup::set_cpu(const std::string& name, int64_t cpu_milli) const {
  const auto group = fs::path(parent_.substr(1)) / name;
  const std::string quota = std::to_string(cpu_milli * kCpuPeriodUs / 1000);
  if (is_v2())
    return linux::write_file(kRoot / group / "cpu.max", quota + " " + std::to_string(kCpuPeriodUs));
  return linux::write_file(kRoot / "cpu" / group / "cpu.cfs_quota_us", quota);
}

fs::path Cgroup::tasks_limit(const std::string& name) const {
  const auto group = fs::path(parent_.substr(1)) / name;
  return (is_v2() ? kRoot / group : kRoot / "pids" / group) / "pids.max";
}

static void kill_members(const fs::path& group) {
  auto members = linux::read_file(group / "cgroup.procs");
  if (!members) return;
  std::istringstream lines(*members);
  for (pid_t pid = 0; lines >> pid;)
    if (pid > 1) ::kill(pid, SIGKILL);
}

// Groups can be removed only when empty, and a killed process leaves a little later.
static Result<void> remove_group(const fs::path& group) {
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    std::error_code error;
    for (fs::directory_iterator it(group, error), end; !error && it != end; it.increment(error))
      if (it->is_directory(error))
        if (auto removed = remove_group(it->path()); !removed) return removed;
    if (::rmdir(group.c_str()) == 0 || errno == ENOENT) return {};
    if (errno != EBUSY && errno != ENOTEMPTY) break;
    kill_members(group);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return linux::system_failure(errno, "remove cgroup", group.native());
}

Result<void> Cgroup::remove(const std::string& name) const {
  for (const auto& parent : parents())
    if (auto removed = remove_group(parent / name); !removed) return removed;
  return {};
}

Result<void> Cgroup::remove_all() const {
  for (const auto& parent : parents())
    if (auto removed = remove_group(parent); !removed) return removed;
  return {};
}

}  // namespace nodus::executor
