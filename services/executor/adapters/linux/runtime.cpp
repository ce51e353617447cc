#include "services/executor/adapters/linux/runtime.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cstdlib>

#include "libs/linux/files.hpp"
#include "libs/linux/subprocess.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr Millis kRunDeadline{60'000};
constexpr Millis kDeadline{30'000};

// runsc and runc share a command line; what differs is the flags and what they leave behind.
class OciRuntime final : public Runtime {
 public:
  OciRuntime(std::string name, std::string binary, fs::path root, std::vector<std::string> flags)
      : name_(std::move(name)),
        binary_(std::move(binary)),
        root_(std::move(root)),
        flags_(std::move(flags)) {}

  std::string name() const override { return name_; }

  Result<std::string> version() override {
    auto outcome = linux::run_checked({.argv = {binary_, "--version"}, .deadline = kDeadline});
    if (!outcome) return std::unexpected(outcome.error());
    return outcome->out.substr(0, outcome->out.find('\n'));
  }

  Result<pid_t> run(const std::string& id, const fs::path& bundle, const fs::path& console) override {
    const fs::path pid_file = bundle / "pid";
    const fs::path log = bundle / "runtime.log";
    auto command = base(log);
    for (const std::string& word : {std::string("run"), std::string("--detach"), std::string("--bundle"),
                                    bundle.native(), std::string("--pid-file"), pid_file.native(), id})
      command.push_back(word);
    auto outcome = linux::run({.argv = command, .output_file = console.native(), .deadline = kRunDeadline});
    if (!outcome) return std::unexpected(outcome.error());
    if (outcome->exit_code != 0)  // its words name paths of the machine
      return fail(Code::kInternal, "RuntimeFailed",
                  name_ + " could not start the container: " + last_words(log, console));
    auto text = linux::read_file(pid_file);
    if (!text) return std::unexpected(text.error());
    return static_cast<pid_t>(std::strtol(text->c_str(), nullptr, 10));
  }

  Result<pid_t> running(const std::string& id) override {
    auto outcome = call({"state", id});
    if (!outcome) return std::unexpected(outcome.error());
    if (outcome->exit_code != 0) return 0;  // unknown
    boost::system::error_code error;
    const auto state = json::parse(outcome->out, error);
    if (error || !state.is_object())
      return fail(Code::kInternal, "RuntimeFailed", name_ + " state is not JSON.");
    const auto* status = state.as_object().if_contains("status");
    const auto* pid = state.as_object().if_contains("pid");
    if (status == nullptr || !status->is_string() || status->as_string() != "running" || pid == nullptr)
      return 0;
    return static_cast<pid_t>(pid->is_int64() ? pid->as_int64() : 0);
  }

  Result<void> destroy(const std::string& id) override {
    auto outcome = call({"delete", "--force", id});
    if (!outcome) return std::unexpected(outcome.error());
    if (outcome->exit_code == 0) return {};
    auto ids = list();
    if (!ids) return std::unexpected(ids.error());
    for (const auto& other : *ids)
      if (other == id)
        return fail(Code::kInternal, "RuntimeFailed",
                    name_ + " could not delete " + id + ": " + outcome->err);
    return {};
  }

  Result<std::vector<std::string>> list() override {
    std::error_code error;
    if (!fs::exists(root_, error)) return std::vector<std::string>{};
    auto outcome = call({"list", "--quiet"});
    if (!outcome) return std::unexpected(outcome.error());
    if (outcome->exit_code != 0)
      return fail(Code::kInternal, "RuntimeFailed", name_ + " list: " + outcome->err);
    std::vector<std::string> ids;
    size_t at = 0;
    while (at < outcome->out.size()) {
      const size_t end = std::min(outcome->out.find('\n', at), outcome->out.size());
      if (end > at) ids.push_back(outcome->out.substr(at, end - at));
      at = end + 1;
    }
    return ids;
  }

 private:
  std::vector<std::string> base(const fs::path& log) const {
    std::vector<std::string> command{binary_, "--root", root_.native(), "--log", log.native()};
    command.insert(command.end(), flags_.begin(), flags_.end());
    return command;
  }

  Result<linux::Outcome> call(const std::vector<std::string>& words) {
    auto command = base("/dev/null");
    command.insert(command.end(), words.begin(), words.end());
    return linux::run({.argv = command, .deadline = kDeadline, .output_limit = 1024 * 1024});
  }

  static std::string last_words(const fs::path& log, const fs::path& console) {
    std::string text = linux::read_file(console).value_or("");
    if (text.empty()) text = linux::read_file(log).value_or("");
    constexpr size_t kKeep = 600;
    return text.size() <= kKeep ? text : text.substr(text.size() - kKeep);
  }

  const std::string name_;
  const std::string binary_;
  const fs::path root_;
  const std::vector<std::string> flags_;
};

}  // namespace

// --directfs=false: the sentry runs as nobody without capabilities. --overlay2=none: writes go to the slot's
// own disk and end at its quota, not into the machine's memory. --host-uds=create: the helper's socket.
std::unique_ptr<Runtime> make_runsc(std::string binary, const fs::path& root) {
  return std::make_unique<OciRuntime>(
      "runsc", std::move(binary), root / "runsc",
      std::vector<std::string>{"--platform=systrap", "--directfs=false", "--overlay2=none",
                               "--host-uds=create", "--network=sandbox"});
}

std::unique_ptr<Runtime> make_runc(std::string binary, const fs::path& root) {
  return std::make_unique<OciRuntime>("runc", std::move(binary), root / "runc", std::vector<std::string>{});
}

}  // namespace nodus::executor
