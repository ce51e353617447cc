// Starts one command as the Sandbox's user: its own session, in a terminal if asked for, no capabilities, no
// new privileges, only descriptors 0 to 2.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "services/executor/helper/protocol.hpp"

namespace nodus::helper {

struct SpawnRequest {
  std::string uid;
  uint32_t user = 0, group = 0;
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string directory;
  std::string stdin_bytes;
  bool stdin_open = false;  // more comes
  bool terminal = false;
  uint16_t rows = 0, columns = 0;  // of the terminal; 0: 24 and 80
};

// What every command is started with.
struct SpawnLimits {
  rlimit files{};
  uint32_t processes = 0;  // that a command may start, all commands of the user together; 0: no limit here
  // The child works in the helper's own memory until it executes. Under gVisor a copy costs more than all
  // the rest of a start. Needs a kernel that makes shared memory undumpable when the child changes its user:
  // gVisor does always, Linux unless fs.suid_dumpable says otherwise.
  bool share_memory = false;
};

struct StartFault {  // written by the child to the status pipe when it cannot exec
  Stage stage = Stage::kNone;
  int32_t error = 0;
};

// Nonblocking ends for the helper; -1 when there is none.
struct Spawned {
  pid_t pid = -1;
  int status = -1;               // end of file: exec succeeded; else one StartFault
  int in = -1;                   // only when the request has stdin, or in a terminal
  int out[2] = {-1, -1};         // stdout, stderr; a terminal has only the first
  int slave = -1;                // of a terminal: to be closed when the command has it open
  std::shared_ptr<void> launch;  // what the child works with: until end of file on `status`, or its death
};

// `mark`: unlike that of any other command; all that descends from it bears the mark (processes.hpp).
StartFault spawn(SpawnRequest request, const SpawnLimits& limits, uint64_t mark, Spawned& spawned);

// Closes every descriptor from `first` on.
void close_from(int first);

}  // namespace nodus::helper
