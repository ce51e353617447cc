// The commands of one running slot: admission, output on disk, timeouts and limits, how each ended. Survives
// a restart of nodusd through the files under <slot>/process and what the helper keeps.
//
// Threads: anybody may call the public functions; the helper's news arrives on the client's thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "services/executor/app/ports.hpp"
#include "services/executor/process/command.hpp"
#include "services/executor/process/report_outbox.hpp"

namespace nodus::executor {

struct ProcessLimits {
  uint64_t output_bytes = 64ull << 20;        // of one command, both streams
  uint64_t kept_output_bytes = 256ull << 20;  // of commands that have ended, a slot; the oldest goes first
  uint64_t live_output_bytes = 1ull << 30;    // of commands that run, a slot
  size_t commands = 1024;                     // at once, a slot
  size_t kept_records = 4096;                 // of commands that have ended, a slot
  Millis kill_again{1'000};                   // a command that should be dead is killed again so often
};

// A command as those see it who wait for its output.
struct CommandView {
  std::string uid;
  std::string name;
  std::shared_ptr<OutputFile> output;  // null: no longer kept
  bool started = false;
  bool ended = false;  // then `end` is set and nothing will be added to the output
  CommandEnd end;
};

class SlotProcesses final : private HelperListener {
 public:
  using Changed = std::function<void(const std::string& uid)>;  // output or end of a command; never blocks
  SlotProcesses(SlotView slot, ProcessLimits limits, ReportOutbox& outbox, Changed changed);
  ~SlotProcesses() override;

  Result<void> open(Millis patience);
  // Starts the command, or finds the one of the same uid. Errors: Conflict/SlotNotRunning,
  // TooManyRequests/TooManyCommands.
  Result<void> start(const CommandRequest& request);
  Result<CommandView> view(const std::string& uid) const;

  // Adds to the command's stdin what there is room for; how many bytes that are. Fewer than all: ask again
  // after Changed. `last` ends stdin, once all is taken. Stdin that was ended before, or never open, takes
  // everything, as that of a command that has ended. NotFound/ProcessUnknown.
  Result<size_t> write_stdin(const std::string& uid, std::string_view data, bool last);
  Result<void> resize(const std::string& uid, uint16_t rows, uint16_t columns);
  // NotFound/ProcessUnknown, Conflict/ProcessEnded.
  Result<void> signal(const std::string& uid, int signal);
  // SIGKILL to the whole tree; it ends as Cancelled, unless it had another end first.
  Result<void> cancel(const std::string& uid);
  // The command never starts here, unless it is here already (true): a start that comes later finds it ended,
  // and its end is reported. Conflict/SlotNotRunning.
  Result<bool> refuse(const std::string& uid, const std::string& name);

  // A file request is under way while the token lives. Conflict/SlotNotRunning.
  Result<std::shared_ptr<void>> begin_file_request();

  void close_admission();
  void reopen_admission();
  Millis closed_for() const;  // how long new commands and file requests have been refused; 0: they are not
  Result<void> end_all(const std::string& reason, Millis patience);
  void close(const std::string& reason);
  Activity activity();
  const SlotView& slot() const { return slot_; }

 private:
  struct Command {
    CommandRecord record;
    std::shared_ptr<OutputFile> output;
    std::string spawn_frame;             // until the helper has answered
    bool sent = false;                   // the spawn frame, on some connection; false: it surely never began
    bool cut = false;                    // more output came than is kept
    uint64_t said = 0;                   // output acknowledged to the helper; of the client's thread alone,
    int unsaid_frames = 0;               // as are the frames since
    bool refused = false;                // never to be taken on
    std::optional<CommandEnd> late_end;  // it ended, but that could not be recorded yet
    Micros kill_due{0};                  // on the boot clock, with kill_reason
    std::string input;                   // stdin that the command has not taken
    uint64_t input_base = 0;             // offset of its first byte
    uint64_t input_sent = 0;             // sent to the helper below it, on this connection
    bool input_end_sent = false;         // or there was never any to end
  };
  using CommandPtr = std::shared_ptr<Command>;

  void connected(const std::string& instance, const std::vector<HelperCommand>& commands) override;
  void started(std::string_view uid, Millis age) override;
  void output(std::string_view uid, int stream, uint64_t offset, std::string_view data) override;
  void taken(std::string_view uid, uint64_t offset) override;
  void ended(std::string_view uid, const HelperEnd& end) override;
  void caught_up() override;
  Millis on_time() override;

  // With mutex_ held.
  CommandPtr find(std::string_view uid) const;
  std::string because(const std::string& process) const;  // while busy: what counts
  size_t live() const;
  Result<void> save(const Command& command) const;
  bool finish(Command& command, CommandEnd end);  // false: it could not be recorded; on_time() repeats
  void settle(Command& command, CommandEnd end);  // its report is on its way
  EndReport report_of(const Command& command, const CommandEnd& end) const;
  std::filesystem::path kept_at(const Command& command) const;  // its output file; empty: none
  void forget(const std::string& uid);
  bool unsent(const Command& command) const { return !command.spawn_frame.empty() && !command.sent; }
  void offer(Command& command);                               // ends it when it was killed before it was sent
  void condemn(Command& command, const std::string& reason);  // it is killed for that, if not for another
  void order_kill(Command& command, const std::string& reason);
  void send_kill(Command& command);
  Result<CommandPtr> running(const std::string& uid) const;
  bool input_waits(const Command& command) const;  // for the helper's connection to have room
  void push_input(Command& command);
  void resume_input(Command& command, uint64_t helper_has);
  void prune();
  void make_room_for_commands() const;

  Result<void> load();
  void refuse_new();  // with mutex_ held
  std::string spawn_frame(const CommandRequest& request) const;
  std::filesystem::path record_path(const std::string& uid) const;
  std::filesystem::path output_path(const std::string& uid) const;

  const SlotView slot_;
  const ProcessLimits limits_;
  ReportOutbox& outbox_;
  const Changed changed_;
  SystemClock clock_;

  mutable std::mutex mutex_;
  std::condition_variable settled_;  // a command ended, a file request ended
  std::map<std::string, CommandPtr, std::less<>> commands_;
  std::deque<std::string> ended_;          // oldest first
  uint64_t kept_output_ = 0;               // file bytes of commands that have ended
  std::atomic<uint64_t> live_output_ = 0;  // and of those that run
  size_t live_ = 0, live_terminals_ = 0;
  bool opened_ = false, admitting_ = false;
  std::chrono::steady_clock::time_point closed_at_{};  // when admission ended; zero: not, or never opened
  int file_requests_ = 0;
  Instant last_activity_;
  uint32_t last_count_ = 0;
  std::vector<CommandPtr> begun_;         // and not recorded as such; of the client's thread alone
  std::shared_ptr<HelperClient> client_;  // set by open, gone after close
};

}  // namespace nodus::executor
