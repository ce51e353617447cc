// One command inside the Sandbox, from its start until nodusd has recorded its end: its pipes, the output not
// yet acknowledged, and how it ended.
#pragma once

#include <poll.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "services/executor/helper/processes.hpp"
#include "services/executor/helper/protocol.hpp"
#include "services/executor/helper/spawn.hpp"

namespace nodus::helper {

// Monotonic, and the same for a whole turn of the loop: it is a system call, which is dear inside gVisor.
uint64_t now_ms();
void forget_now();  // a turn begins

class Command {
 public:
  // A start that fails is a command that has ended.
  Command(SpawnRequest request, const SpawnLimits& limits, bool too_many);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  const std::string& uid() const { return uid_; }
  pid_t pid() const { return pid_; }
  bool ended() const { return ended_; }
  bool running() const { return pid_ > 0 && !reaped_; }
  size_t stdin_left() const { return stdin_bytes_.size() - stdin_at_; }
  uint64_t stdin_end() const { return stdin_end_; }
  // A terminal's own program that waits for a person to type.
  bool at_prompt() const;
  uint64_t base() const { return base_; }
  uint64_t end() const { return end_; }

  // What to poll for; then hand each descriptor that is ready to on_ready.
  void interests(std::vector<pollfd>& wanted) const;
  void on_ready(const pollfd& ready);
  void on_exit(int wait_status);
  // Milliseconds until on_time must be called; -1: never.
  int patience_ms() const;
  void on_time();

  void attach(uint64_t offset);  // send again from here
  void detach() { attached_ = started_sent_ = end_sent_ = false; }
  void acknowledge(uint64_t offset);
  bool add_stdin(uint64_t offset, std::string_view data, bool last);  // false: more than the window
  void resize(uint16_t rows, uint16_t columns);
  void signal_group(int signal);
  Tree tree() const { return {ended_ ? 0 : pid_, mark_}; }
  // The next frame nodusd should hear, or empty.
  std::string next_frame();

 private:
  struct Chunk {
    uint8_t stream;
    uint64_t offset;
    std::string data;
  };
  void close_end(int& fd);
  void read_status();
  void feed_stdin();
  void drop_stdin();
  void hang_up();
  void read_output(int index, bool hung_up);
  void keep(int index, const char* data, size_t size);
  void maybe_end();
  bool start_can_wait() const;
  bool has_room() const { return kept_ < kKeptOutput && kept_by_all < kKeptByAll; }

  static inline size_t kept_by_all = 0;
  static inline uint64_t last_mark = 0;

  std::string uid_;
  const uint64_t mark_ = ++last_mark;
  pid_t pid_ = -1;
  int status_ = -1, in_ = -1, out_[2] = {-1, -1}, slave_ = -1;
  std::shared_ptr<void> launch_;  // Spawned::launch
  const bool terminal_;
  bool shell_ = false;    // a terminal's own
  bool hung_up_ = false;  // nobody has the terminal open now; looked at again when the process has ended
  std::string stdin_bytes_;
  size_t stdin_at_ = 0;
  uint64_t stdin_end_ = 0;  // bytes of stdin received, the spawn's included
  bool stdin_open_;         // more may come
  uint64_t taken_sent_ = 0;

  std::deque<Chunk> chunks_;
  size_t kept_ = 0;  // bytes charged to chunks_, with a price for each chunk
  uint64_t base_ = 0, end_ = 0, sent_ = 0;

  bool exec_done_ = false, reaped_ = false, ended_ = false;
  bool attached_ = true, started_sent_ = false, end_sent_ = false;
  StartFault fault_;
  int wait_status_ = 0;
  uint64_t started_ms_ = 0, executed_ms_ = 0, exited_ms_ = 0, ended_ms_ = 0;
  size_t owed_[2] = {0, 0};  // bytes in the pipes when the process ended: read whatever the grace says
};

}  // namespace nodus::helper
