// The node's own corner of the cgroup hierarchies. The runtimes make and remove the group of each container
// below it; the rest of the machine's groups are left alone. v1 (also hybrid) and v2.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::executor {

constexpr int64_t kCpuPeriodUs = 100'000;  // a quota holds for each such period

class Cgroup {
 public:
  explicit Cgroup(std::string parent);  // "/nodus-n1a2b3c"
  Result<void> check() const;           // CPU, memory and process limits can be set here
  Result<void> set_cpu(const std::string& name, int64_t cpu_milli) const;
  std::filesystem::path tasks_limit(const std::string& name) const;  // a file
  // Kills what is still in the group of `name` and removes it; also when it was never there.
  Result<void> remove(const std::string& name) const;
  Result<void> remove_all() const;  // the parent with all below

 private:
  std::vector<std::filesystem::path> parents() const;  // one a hierarchy
  std::string parent_;
};

}  // namespace nodus::executor
