#include "tests/integration/bus/broker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "libs/base/check.hpp"

namespace nodus::bus::test {
namespace {

namespace fs = std::filesystem;

void dev_kafka(const std::string& dir, const std::vector<std::string>& args) {
  std::vector<std::string> argv = {NODUS_SOURCE_DIR "/dev/kafka"};
  argv.insert(argv.end(), args.begin(), args.end());
  std::vector<char*> raw;
  for (auto& arg : argv) raw.push_back(arg.data());
  raw.push_back(nullptr);
  const std::string output = dir + "/dev-kafka.log";
  const pid_t pid = fork();
  CHECK(pid >= 0, "fork");
  if (pid == 0) {
    if (freopen(output.c_str(), "a", stdout) == nullptr || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
    execv(raw[0], raw.data());
    _exit(127);
  }
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "dev/kafka {} failed, see {}", args[0], output);
}

int first_number(const char* path) {
  char text[32] = "";
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  if (read(file, text, sizeof text - 1) < 0) text[0] = '\0';
  close(file);
  return atoi(text);
}

// Ends the broker when this process ends in any way: a child waits for the end of a pipe that only we hold.
void end_with_us(const std::string& pid_file) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  const pid_t pid = fork();
  CHECK(pid >= 0, "fork");
  if (pid > 0) {
    close(ends[0]);
    return;
  }
  close(ends[1]);
  char nothing;
  while (read(ends[0], &nothing, 1) > 0) {
  }
  if (const int broker = first_number(pid_file.c_str()); broker > 0) kill(broker, SIGKILL);
  _exit(0);
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

Broker::Broker() {
  std::string pattern = "/tmp/nodus-kafka-XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr, "mkdtemp {}", pattern);
  dir_ = pattern;
  std::ofstream(dir_ + "/topics") << "";  // the tests make their own topics
  start();
  end_with_us(dir_ + "/pid");
}

Broker::~Broker() {
  kill_now();
  std::error_code ignored;
  fs::remove_all(dir_, ignored);
}

void Broker::start() {
  const auto port = address_.empty() ? std::string() : address_.substr(address_.find(':') + 1);
  dev_kafka(dir_, port.empty() ? std::vector<std::string>{"start", dir_}
                               : std::vector<std::string>{"start", dir_, port});
  address_ = first_line(dir_ + "/bootstrap");
}

void Broker::kill_now() {
  const int pid = first_number((dir_ + "/pid").c_str());
  if (pid <= 0) return;
  kill(pid, SIGKILL);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (fs::exists(fmt::format("/proc/{}/fd/0", pid)) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

Broker& shared_broker() {
  static Broker broker;
  return broker;
}

}  // namespace nodus::bus::test
