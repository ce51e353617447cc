#include "services/executor/process/slot_processes.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
using helper::Kind;
using helper::Writer;
namespace {
constexpr std::string_view kOutputLimit = "OutputLimitExceeded";
constexpr size_t kRecordLimit = 64 * 1024;
constexpr Millis kCountPatience{500};
constexpr Micros kRefused = std::chrono::hours(24);  // any time: it has ended

std::unexpected<Error> not_running() {
  return fail(Code::kConflict, "SlotNotRunning", "The Sandbox does not run here.");
}

std::string_view variable_name(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}
}  // namespace

SlotProcesses::SlotProcesses(SlotView slot, ProcessLimits limits, ReportOutbox& outbox, Changed changed)
    : slot_(std::move(slot)), limits_(limits), outbox_(outbox), changed_(std::move(changed)) {}

SlotProcesses::~SlotProcesses() {
  std::shared_ptr<HelperClient> client;
  {
    std::lock_guard hold(mutex_);
    client.swap(client_);
  }
}

fs::path SlotProcesses::record_path(const std::string& uid) const {
  return slot_.directory / "process" / "commands" / (uid + ".json");
}
fs::path SlotProcesses::output_path(const std::string& uid) const {
  return slot_.directory / "process" / "output" / uid;
}

// Under runc one count holds for all: the limit for the Sandbox, and one for each command.
void SlotProcesses::make_room_for_commands() const {
  if (slot_.tasks_limit.empty()) return;
  const int fd = ::open(slot_.tasks_limit.c_str(), O_WRONLY | O_CLOEXEC);
  const std::string text = std::to_string(kSandboxProcesses + live_);
  // Without it a command may end as StartFailed, and says why.
  if (fd < 0 || write(fd, text.data(), text.size()) < 0)
    log::warn("process.tasks_limit_failed",
              {{"sandbox", slot_.key.sandbox.str()}, {"errno", std::to_string(errno)}});
  if (fd >= 0) ::close(fd);
}

Result<void> SlotProcesses::load() {
  std::error_code fault;
  for (const char* name : {"commands", "output"})
    fs::create_directories(slot_.directory / "process" / name, fault);
  if (fault) return fail(Code::kInternal, "NodeFileFailed", "Cannot keep commands: " + fault.message() + ".");
  std::vector<CommandPtr> past;
  for (fs::directory_iterator entry(slot_.directory / "process" / "commands", fault), end;
       !fault && entry != end; entry.increment(fault)) {
    if (entry->path().extension() != ".json") continue;
    auto text = read_small_file(entry->path(), kRecordLimit);
    auto record = text ? decode_record(*text) : std::unexpected(text.error());
    if (!record) return std::unexpected(record.error());
    auto command = std::make_shared<Command>();
    command->record = *record;
    command->input_end_sent = !record->stdin_open;
    command->cut = record->kill_reason == kOutputLimit;
    std::error_code gone;
    if (!record->ended || fs::exists(output_path(record->uid), gone)) {
      auto output = OutputFile::open(output_path(record->uid));
      if (!output) return std::unexpected(output.error());
      command->output = *output;
    }
    if (record->ended) {
      past.push_back(command);
    } else {
      ++live_;
      live_terminals_ += record->terminal;
      live_output_ += command->output->file_size();
    }
    commands_[record->uid] = command;
  }
  std::sort(past.begin(), past.end(),
            [](const auto& a, const auto& b) { return a->record.end.at < b->record.end.at; });
  for (const auto& command : past) {
    ended_.push_back(command->record.uid);
    if (command->output) kept_output_ += command->output->file_size();
  }
  return {};
}

Result<void> SlotProcesses::open(Millis patience) {
  std::shared_ptr<HelperClient> client;
  {
    std::lock_guard hold(mutex_);
    if (opened_) return {};
    if (!client_) {
      if (auto loaded = load(); !loaded) return loaded;
      client_ = std::make_shared<HelperClient>(slot_.run_socket, static_cast<HelperListener&>(*this));
    }
    client = client_;
  }
  if (!client->wait_connected(patience))
    return fail(Code::kUnavailable, "HelperSilent", "The helper inside the Sandbox does not answer.");
  std::lock_guard hold(mutex_);
  opened_ = admitting_ = true;
  closed_at_ = {};
  last_activity_ = clock_.now();
  return {};
}

std::string SlotProcesses::spawn_frame(const CommandRequest& request) const {
  std::vector<std::string> env;
  for (const auto& entry : slot_.env) {
    const bool replaced = std::any_of(request.env.begin(), request.env.end(), [&](const auto& own) {
      return variable_name(own) == variable_name(entry);
    });
    if (!replaced) env.push_back(entry);
  }
  env.insert(env.end(), request.env.begin(), request.env.end());
  if (request.terminal &&
      std::none_of(env.begin(), env.end(), [](const auto& entry) { return variable_name(entry) == "TERM"; }))
    env.push_back("TERM=xterm");
  const int flags =
      (request.terminal ? helper::kTerminal : 0) | (request.stdin_open ? helper::kStdinOpen : 0);
  return Writer(Kind::kSpawn)
      .text(request.uid)
      .u32(slot_.uid)
      .u32(slot_.gid)
      .texts(request.argv)
      .texts(env)
      .text(request.working_dir.empty() ? slot_.working_dir : request.working_dir)
      .text(request.stdin_bytes)
      .u8(static_cast<uint8_t>(flags))
      .u32(request.rows)
      .u32(request.columns)
      .take();
}

Result<void> SlotProcesses::start(const CommandRequest& request) {
  std::lock_guard hold(mutex_);
  if (find(request.uid)) return {};
  if (!admitting_) return not_running();
  if (live_ >= limits_.commands) {
    Error error{Code::kTooManyRequests, "TooManyRequests", "", {}, 1, {}};
    error.message =
        "The Sandbox runs " + std::to_string(live_) + " commands, the most at once. Wait until one ends.";
    return std::unexpected(error);
  }
  if (slot_.env.size() + request.env.size() > helper::kMaxEnvironment)
    return fail(Code::kInvalid, "Invalid", "The image and the request have too many environment variables.");
  auto output = OutputFile::open(output_path(request.uid));
  if (!output) return std::unexpected(output.error());
  auto command = std::make_shared<Command>();
  command->output = *output;
  command->record.uid = request.uid;
  command->record.name = request.name;
  command->record.timeout = request.timeout;
  command->record.terminal = request.terminal;
  command->input_base = command->input_sent = request.stdin_bytes.size();
  command->record.stdin_open = request.stdin_open;
  command->input_end_sent = !request.stdin_open;
  command->record.accepted_at = clock_.now();
  command->record.deadline_boot = clock_.boot() + request.timeout;
  command->spawn_frame = spawn_frame(request);
  // Recorded before it can begin, so that it is never started a second time.
  if (auto saved = save(*command); !saved) return saved;
  failpoint("process.accepted");
  commands_[request.uid] = command;
  ++live_;
  live_terminals_ += request.terminal;
  make_room_for_commands();
  last_activity_ = clock_.now();
  command->sent = client_->offer(command->spawn_frame);  // or on_time() and connected() offer it again
  client_->wake();
  return {};
}

Result<bool> SlotProcesses::refuse(const std::string& uid, const std::string& name) {
  std::lock_guard hold(mutex_);
  if (find(uid)) return true;
  if (!client_) return not_running();
  auto command = std::make_shared<Command>();
  command->record.uid = uid;
  command->record.name = name;
  command->record.accepted_at = clock_.now();
  command->record.deadline_boot = clock_.boot() + kRefused;
  command->refused = true;
  commands_[uid] = command;
  ++live_;
  if (!finish(*command,
              {"StartFailed", 126, "The command did not reach the Sandbox's machine in time.", clock_.now()}))
    client_->wake();  // on_time() repeats it
  return false;
}

Result<CommandView> SlotProcesses::view(const std::string& uid) const {
  std::lock_guard hold(mutex_);
  const auto command = find(uid);
  if (!command) return fail(Code::kNotFound, "NotFound", "There is no such command.");
  return CommandView{uid,
                     command->record.name,
                     command->output,
                     command->record.started_at != Instant{},
                     command->record.ended,
                     command->record.end};
}

Result<std::shared_ptr<void>> SlotProcesses::begin_file_request() {
  std::lock_guard hold(mutex_);
  if (!admitting_) return not_running();
  ++file_requests_;
  last_activity_ = clock_.now();
  return std::shared_ptr<void>(this, [](SlotProcesses* slot) {
    std::lock_guard done(slot->mutex_);
    --slot->file_requests_;
    slot->last_activity_ = slot->clock_.now();
    slot->settled_.notify_all();
  });
}

void SlotProcesses::refuse_new() {
  admitting_ = false;
  if (closed_at_ == std::chrono::steady_clock::time_point{}) closed_at_ = std::chrono::steady_clock::now();
}

void SlotProcesses::close_admission() {
  std::lock_guard hold(mutex_);
  refuse_new();
}

void SlotProcesses::reopen_admission() {
  std::lock_guard hold(mutex_);
  admitting_ = client_ != nullptr;
  if (admitting_) closed_at_ = {};
}

Millis SlotProcesses::closed_for() const {
  std::lock_guard hold(mutex_);
  if (closed_at_ == std::chrono::steady_clock::time_point{}) return Millis(0);
  return std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - closed_at_) + Millis(1);
}

Result<void> SlotProcesses::end_all(const std::string& reason, Millis patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto left = [&] {
    return std::max(Millis(0), std::chrono::ceil<Millis>(deadline - std::chrono::steady_clock::now()));
  };
  std::shared_ptr<HelperClient> client;
  {
    std::unique_lock hold(mutex_);
    refuse_new();
    if (!settled_.wait_until(hold, deadline, [&] { return file_requests_ == 0; }))
      return fail(Code::kDeadlineExceeded, "FileRequestsRunning", "A file request is still under way.");
    for (auto& [uid, command] : commands_)
      if (!command->record.ended) condemn(*command, reason);
    client = client_;
    if (!client) return {};
    client->wake();  // for those that are not sent yet
  }
  for (;;) {
    auto count = client->kill_all(left());
    if (!count) return std::unexpected(count.error());
    std::unique_lock hold(mutex_);
    // A command that has just died still drains its pipes.
    const bool quiet = settled_.wait_for(hold, *count == 0 ? left() : Millis(5), [&] { return live_ == 0; });
    if (*count == 0 && quiet) return {};
    if (left() == Millis(0))
      return fail(Code::kDeadlineExceeded, "CommandsRunning", "A command does not end.");
  }
}

void SlotProcesses::close(const std::string& reason) {
  std::shared_ptr<HelperClient> client;
  {
    std::lock_guard hold(mutex_);
    refuse_new();
    client.swap(client_);
  }
  client.reset();  // waits for its thread, unless a caller of activity() still holds it for a moment
  std::lock_guard hold(mutex_);
  for (auto& [uid, command] : commands_) {
    if (command->record.ended) continue;
    if (command->record.kill_reason.empty()) command->record.kill_reason = reason;
    HelperEnd killed;
    killed.how = helper::How::kSignaled;
    killed.value = SIGKILL;
    const auto end = command->late_end.value_or(judge_end(command->record, killed, clock_.now()));
    if (finish(*command, end)) continue;
    // Nobody would repeat it: the outbox goes on trying, and whoever reads the output hears the end.
    outbox_.keep(report_of(*command, end), kept_at(*command));
    settle(*command, end);
  }
}

// What a person looks for first: a command by its name, then a request, then whatever else lives.
std::string SlotProcesses::because(const std::string& process) const {
  for (const auto& [uid, command] : commands_)
    if (!command->record.ended && !command->record.terminal) return "command " + command->record.name;
  if (file_requests_ > 0) return "file request";
  return process.empty() ? "a process" : process;
}

Activity SlotProcesses::activity() {
  std::shared_ptr<HelperClient> client;
  {
    std::lock_guard hold(mutex_);
    client = client_;
  }
  // A terminal's own shell at its prompt is not in the count, what runs in it is.
  auto count = client ? client->count_live(kCountPatience) : Result<uint32_t>(0u);
  const std::string process = client ? client->live_name() : "";
  std::lock_guard hold(mutex_);
  if (count) last_count_ = *count;
  const bool busy = live_ > live_terminals_ || file_requests_ > 0 || last_count_ > 0;
  if (busy) last_activity_ = clock_.now();
  return {last_activity_, busy, busy ? because(process) : ""};
}

}  // namespace nodus::executor
