// What the parts of nodusd need of each other. The slots side (reconciler, adapters/linux) makes and destroys
// containers; the process side (process/) speaks with the helper inside them; snapshot/ keeps their files.
// The slots side calls; the process side learns of a slot by open() and forgets it by close().
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "services/executor/domain/slot.hpp"

namespace nodus::executor {

inline constexpr int kSandboxProcesses = 256;  // spec 000: in a Sandbox, besides the commands themselves

// What the process side needs to serve a running slot.
struct SlotView {
  SlotKey key;
  int64_t start = 0;
  std::string org;
  std::string project;
  std::string name;                  // of the Sandbox: Processes are <name>-<n>
  std::filesystem::path directory;   // <state>/slots/<uid>-<epoch>: may hold files of the process side
                                     // under process/; removed whole at teardown
  std::filesystem::path run_socket;  // <directory>/run/helper.sock; inside it is /.run/helper.sock
  uint32_t uid = 0;                  // of commands and file requests; never 0
  uint32_t gid = 0;
  std::vector<std::string> env;  // "NAME=value": the image's, with HOME and PATH
  std::string working_dir;       // absolute; the default for commands
  // The cgroup's file that bounds the Sandbox's processes; each command that runs is added to it. Empty: they
  // are counted inside.
  std::filesystem::path tasks_limit;
};

// The process side. Thread-safe; calls for different slots do not wait for each other.
class ProcessService {
 public:
  virtual ~ProcessService() = default;

  // Connects to the helper and admits commands and file requests. The container was started just now, or is
  // re-adopted after a restart of nodusd (then its commands are still running and are picked up again).
  // Waits until the helper answers, at most `patience`. Unavailable/HelperSilent otherwise. A repeat is a
  // no-op.
  virtual Result<void> open(const SlotView& slot, Millis patience) = 0;

  // From its return on new commands and file requests are answered 409/SlotNotRunning. Idempotent.
  virtual void close_admission(const SlotKey& slot) = 0;
  virtual void reopen_admission(const SlotKey& slot) = 0;  // the idle stop was declined

  // After close_admission: waits for file requests under way, ends every command with `reason`
  // (ParentStopped) and records how they ended. An error means that something still runs; the caller repeats.
  virtual Result<void> end_all(const SlotKey& slot, const std::string& reason, Millis patience) = 0;

  // Forgets the slot; the container is gone or about to be. Commands still open end with `reason`.
  // Idempotent.
  virtual void close(const SlotKey& slot, const std::string& reason) = 0;

  virtual Activity activity(const SlotKey& slot) const = 0;  // an unknown slot: {epoch of time, not busy}
};

// The reason of an error of save() that comes again however often it is repeated: the files themselves are
// beyond what a snapshot holds.
inline constexpr const char* kCannotBeSaved = "CannotBeSaved";

// Thread-safe. `upper` is the upper directory of the slot's overlay; nothing writes to it meanwhile.
class SnapshotStore {
 public:
  virtual ~SnapshotStore() = default;
  // Writes, flushes, reads back and verifies. Repeating with the same object replaces it. kCannotBeSaved is
  // for ever; any other error may pass.
  virtual Result<RestorePoint> save(const std::filesystem::path& upper, const std::string& object) = 0;
  // `upper` exists and is empty. On an error its content is undefined and the caller throws it away.
  virtual Result<void> restore(const RestorePoint& from, const std::filesystem::path& upper) = 0;
};

}  // namespace nodus::executor
