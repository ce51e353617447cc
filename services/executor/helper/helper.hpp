// The helper's one loop: the listening socket, nodusd's connection, the pipes of all commands, and the
// children that end. Single-threaded; nothing in it blocks, nothing in it grows without a bound.
#pragma once

#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "services/executor/helper/command.hpp"

namespace nodus::helper {

// Set by the handler of SIGCHLD, which is let in only while the loop waits.
extern volatile sig_atomic_t child_ended;

class Helper {
 public:
  // `listener` is bound and listening; `locks` serialises file writers; `processes`: SpawnLimits.
  Helper(int listener, int locks, uint32_t processes);
  [[noreturn]] void run();

 private:
  struct Stranger {  // connected, has not said hello yet
    int fd;
    uint64_t since_ms;
  };
  struct Worker {
    pid_t pid;
    uint64_t since_ms;
  };
  void turn();
  int wait_time_ms() const;
  void on_ready(const std::vector<pollfd>& ready);
  void accept_all();
  bool greet(const pollfd& ready);  // false: not ready yet
  void start_file_worker(int fd);
  void welcome(int fd);
  void drop_control();
  void read_control();
  void write_control();
  bool handle(std::string_view frame);
  bool on_spawn(class Reader& body);
  bool on_input(Kind kind, Command* command, Reader& body);
  void say_count(uint64_t tag);
  void reap();
  void fill_output();
  Command* find(std::string_view uid);

  const int listener_, locks_;
  SpawnLimits limits_;
  std::string instance_;
  std::vector<Stranger> strangers_;
  std::vector<Worker> workers_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<Tree> condemned_;  // to be killed when what has arrived is read
  size_t turn_of_ = 0;           // whose output goes first

  int control_ = -1;
  std::string in_, out_;
  size_t out_at_ = 0;
};

}  // namespace nodus::helper
