// Parts of the tests that run in a process of their own, because they kill it.
#include <stdlib.h>
#include <unistd.h>

#include "tests/integration/bus/world.hpp"

namespace nodus::bus::test {

int run_child(const std::map<std::string, std::string>& environment, const std::string& name, World& world) {
  std::map<std::string, std::string> extra = environment;
  extra["BUS_TEST_URL"] = world.url();
  extra["BUS_TEST_KIND"] = world.transport().kind;
  extra["BUS_TEST_BROKERS"] = world.transport().kafka_brokers;
  extra["BUS_TEST_PREFIX"] = world.transport().topic_prefix;
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  for (const auto& [key, value] : extra) variables.push_back(key + "=" + value);
  std::vector<char*> envp;
  for (auto& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  std::string filter = "--gtest_filter=Child.DISABLED_" + name;
  std::string self = "/proc/self/exe";
  std::string disabled = "--gtest_also_run_disabled_tests";
  char* argv[] = {self.data(), filter.data(), disabled.data(), nullptr};
  const pid_t pid = fork();
  if (pid == 0) {
    execve(argv[0], argv, envp.data());
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

std::unique_ptr<World> child_world() {
  return std::make_unique<World>(getenv("BUS_TEST_URL"),
                                 TransportOptions{getenv("BUS_TEST_KIND"), getenv("BUS_TEST_BROKERS"),
                                                  getenv("BUS_TEST_PREFIX"), kPartitions});
}

namespace {

TEST(Child, DISABLED_ConsumeInAChild) {
  auto world = child_world();
  auto consumer = world->consume({.max_batch = 8});
  eventually([] { return false; }, Seconds(30));
  FAIL() << "the failpoint was not reached";
}

TEST(Child, DISABLED_RelayInAChild) {
  auto world = child_world();
  world->start_relay();
  eventually([] { return false; }, Seconds(30));
  FAIL() << "the failpoint was not reached";
}

}  // namespace
}  // namespace nodus::bus::test
