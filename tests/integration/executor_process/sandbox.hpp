// Runs the real helper for tests: as a plain process in a PID namespace of its own, or as PID 1 of a
// container under runc or runsc on a busybox root file system.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace nodus::executor::test {

enum class Runtime { kPlain, kRunc, kRunsc };
const char* to_text(Runtime runtime);

inline constexpr uint32_t kUser = 1000;

class Sandbox {
 public:
  // Ends the test program with a clear sentence when something it needs is missing.
  explicit Sandbox(Runtime runtime);
  ~Sandbox();
  Runtime runtime() const { return runtime_; }
  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path socket() const { return directory_ / "run" / "helper.sock"; }
  std::filesystem::path root() const { return directory_ / "rootfs"; }
  // Where the Sandbox's user may write, as the host sees it and as the Sandbox does.
  std::filesystem::path workspace() const;
  std::string inside() const;
  std::filesystem::path tasks_limit() const;             // as SlotView's
  int exec(const std::vector<std::string>& argv) const;  // the runtime's own exec; its wait status

 private:
  void make_root();
  void make_bundle();
  void start();
  const Runtime runtime_;
  std::filesystem::path directory_;
  std::string id_, program_;
  pid_t pid_ = -1;
};

// Polls until `condition` or the deadline; false when the deadline passed.
template <class Condition>
bool eventually(Condition condition, int seconds = 60) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace nodus::executor::test
