// A node's host side in a directory of its own, with real runtimes, for tests. Needs root.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "services/executor/adapters/linux/linux_host.hpp"
#include "services/executor/adapters/linux/slot_store.hpp"

namespace nodus::executor::testing {

std::filesystem::path nodus_home();  // tools and images: $NODUS_HOME, or .nodus in the tree

struct Answer {
  int exit_code = -1;
  std::string out;
};

class Node {
 public:
  // runtime: "runsc" or "runc"
  // helper: PID 1 of the Sandboxes.
  explicit Node(const std::string& runtime, std::string pool = "10.217.0.0/20",
                std::filesystem::path helper = NODUS_PROBE_INIT);
  ~Node();  // purges

  LinuxHost& host() { return *host_; }
  SlotStore& store() { return *store_; }
  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path state() const { return directory_ / "state"; }
  void reopen();  // as after a restart of nodusd

  Order order(const std::string& name, int64_t epoch = 1);  // of nodus/busybox
  SlotRecord start(const Order& order);                     // prepared and launched; throws what failed
  // Runs `sh -c line` inside, as the image's user.
  Answer exec(const SlotKey& key, const std::string& line, Millis deadline = Millis(30'000));

 private:
  std::string runtime_;
  std::string pool_;
  std::filesystem::path helper_;
  std::filesystem::path directory_;
  std::unique_ptr<LinuxHost> host_;
  std::unique_ptr<SlotStore> store_;
  std::map<std::string, int> indices_;
};

// Commands on the machine itself, through sh.
Answer on_machine(const std::string& line);

}  // namespace nodus::executor::testing
