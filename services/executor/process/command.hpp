// A command as the node knows it: what was asked, how it stands, how it ended, and the file its output is in.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "services/executor/process/helper_client.hpp"
#include "services/executor/process/output_file.hpp"

namespace nodus::executor {

struct CommandRequest {
  std::string uid;                // UUID; starts at most once
  std::string name;               // sb-hello-12
  std::vector<std::string> argv;  // at least one
  std::vector<std::string> env;   // "NAME=value", over the Sandbox's
  std::string working_dir;        // empty: the Sandbox's
  Millis timeout{600'000};
  std::string stdin_bytes;
  bool stdin_open = false;  // more comes, by SlotProcesses::write_stdin
  bool terminal = false;
  uint16_t rows = 0, columns = 0;  // of the terminal; 0: 24 and 80
};

struct CommandEnd {
  std::string reason;  // of the table in spec 001; empty: exit code 0
  int exit_code = 0;
  std::string message;
  Instant at;
};

// What is kept on disk beside the output, so that a restarted nodusd goes on. Small and rewritten whole.
struct CommandRecord {
  std::string uid;
  std::string name;
  Millis timeout{0};
  Instant accepted_at;
  Instant started_at;       // zero: not (yet)
  Micros deadline_boot{0};  // on the boot clock
  bool terminal = false;
  bool stdin_open = false;  // nobody has closed it
  std::string kill_reason;  // why the node killed it, decided before it was killed
  bool ended = false;
  CommandEnd end;
};

std::string encode_record(const CommandRecord& record);
Result<CommandRecord> decode_record(std::string_view json);

// How the command ended, from what the helper saw and why the node killed it.
CommandEnd judge_end(const CommandRecord& record, const HelperEnd& end, Instant at);

// Replaces a small file; complete after a crash of nodusd, not of the machine (which ends its Sandboxes too).
Result<void> write_small_file(const std::filesystem::path& path, std::string_view content);
Result<std::string> read_small_file(const std::filesystem::path& path, size_t limit);

}  // namespace nodus::executor
