#include "services/executor/process/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <boost/json.hpp>

#include <cerrno>
#include <cstring>

#include "libs/config/config.hpp"

namespace nodus::executor {
namespace json = boost::json;
namespace {
constexpr int kCannotRun = 126, kNotFound = 127, kSignalBase = 128;

std::unexpected<Error> io_fault(const std::filesystem::path& path) {
  return fail(Code::kInternal, "NodeFileFailed",
              fmt::format("{}: {}.", path.filename().string(), std::strerror(errno)));
}

std::string start_message(helper::Stage stage, uint32_t error) {
  const std::string why = std::strerror(static_cast<int>(error));
  switch (stage) {
    case helper::Stage::kLimit:
      return "Too many commands run in this Sandbox, or too much input waits.";
    case helper::Stage::kFork:
      return "The Sandbox cannot start another process: " + why + ".";
    case helper::Stage::kUser:
      return "The Sandbox's user cannot be taken on: " + why + ".";
    case helper::Stage::kTerminal:
      return "The Sandbox cannot make a terminal: " + why + ".";
    case helper::Stage::kDirectory:
      return "The working directory cannot be entered: " + why + ".";
    default:
      return "The program cannot be executed: " + why + ".";
  }
}
}  // namespace

std::string encode_record(const CommandRecord& record) {
  return json::serialize(json::object{{"uid", record.uid},
                                      {"name", record.name},
                                      {"timeoutMs", record.timeout.count()},
                                      {"acceptedAt", to_micros(record.accepted_at)},
                                      {"startedAt", to_micros(record.started_at)},
                                      {"deadlineBoot", record.deadline_boot.count()},
                                      {"terminal", record.terminal},
                                      {"stdinOpen", record.stdin_open},
                                      {"killReason", record.kill_reason},
                                      {"ended", record.ended},
                                      {"reason", record.end.reason},
                                      {"exitCode", record.end.exit_code},
                                      {"message", record.end.message},
                                      {"endedAt", to_micros(record.end.at)}});
}

Result<CommandRecord> decode_record(std::string_view text) {
  try {
    const auto root = json::parse(text).as_object();
    const auto str = [&](const char* key) { return std::string(root.at(key).as_string()); };
    const auto number = [&](const char* key) { return root.at(key).to_number<int64_t>(); };
    CommandRecord record;
    record.uid = str("uid");
    record.name = str("name");
    record.timeout = Millis(number("timeoutMs"));
    record.accepted_at = from_micros(number("acceptedAt"));
    record.started_at = from_micros(number("startedAt"));
    record.deadline_boot = Micros(number("deadlineBoot"));
    record.terminal = root.at("terminal").as_bool();
    record.stdin_open = root.at("stdinOpen").as_bool();
    record.kill_reason = str("killReason");
    record.ended = root.at("ended").as_bool();
    record.end = {str("reason"), static_cast<int>(number("exitCode")), str("message"),
                  from_micros(number("endedAt"))};
    return record;
  } catch (const std::exception& fault) {
    return fail(Code::kInternal, "NodeFileFailed",
                std::string("A command's record is damaged: ") + fault.what());
  }
}

CommandEnd judge_end(const CommandRecord& record, const HelperEnd& end, Instant at) {
  CommandEnd judged{"", 0, "", at};
  const bool killed = end.how == helper::How::kSignaled && end.value == SIGKILL;
  if (end.how == helper::How::kStartFailed) {
    judged.reason = "StartFailed";
    judged.exit_code = end.stage == helper::Stage::kExec && end.value == ENOENT ? kNotFound : kCannotRun;
    judged.message = start_message(end.stage, end.value);
    return judged;
  }
  judged.exit_code = static_cast<int>(end.value) + (end.how == helper::How::kSignaled ? kSignalBase : 0);
  if (end.how == helper::How::kSignaled) {
    judged.reason = "Signaled";
    judged.message = fmt::format("Signal {} ended the command.", end.value);
  } else if (end.value != 0) {
    judged.reason = "NonZeroExit";
  }
  // Killed by the node, unless it was quicker; output that was cut is said whatever the exit code.
  if (!record.kill_reason.empty() && (killed || record.kill_reason == "OutputLimitExceeded"))
    judged.reason = record.kill_reason;
  if (judged.reason == "OutputLimitExceeded" && judged.exit_code == 0)
    judged.exit_code = kSignalBase + SIGKILL;
  if (judged.reason == "Cancelled") judged.message = "The command was cancelled.";
  if (judged.reason == "DeadlineExceeded")
    judged.message = fmt::format("The timeout of {} passed and the command was killed.",
                                 config::format_duration(record.timeout));
  if (judged.reason == "OutputLimitExceeded")
    judged.message = "The command wrote more output than is kept for it and was killed.";
  if (judged.reason == "ParentStopped") judged.message = "The Sandbox stopped while the command ran.";
  return judged;
}

Result<void> write_small_file(const std::filesystem::path& path, std::string_view content) {
  const std::string temporary = path.string() + ".new";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return io_fault(path);
  const bool written = write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  if (close(fd) < 0 || !written || rename(temporary.c_str(), path.c_str()) < 0) return io_fault(path);
  return {};
}

Result<std::string> read_small_file(const std::filesystem::path& path, size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return io_fault(path);
  std::string content(limit, '\0');
  const ssize_t got = read(fd, content.data(), content.size());
  close(fd);
  if (got < 0) return io_fault(path);
  content.resize(got);
  return content;
}

}  // namespace nodus::executor
