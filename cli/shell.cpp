// nodus shell: a terminal in a Sandbox, which is made first when the name is new. Source: spec 001, "Open a
// shell".
#include <fmt/format.h>
#include <signal.h>

#include <boost/json/serialize.hpp>

#include "cli/commands.hpp"
#include "cli/names.hpp"
#include "cli/notices.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "cli/signals.hpp"
#include "libs/base/random.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

// bash where there is one. The image that we fill in has one.
std::vector<std::string> default_command(const std::string& image) {
  if (image == kDefaultImage) return {"bash"};
  return {"sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh"};
}

// Refuses what would change a Sandbox that is there.
std::optional<std::string> refusal(const ShellFlags& flags, const std::string& name) {
  if (flags.remove)
    return fmt::format(
        "--rm is for a Sandbox that this command creates, and sandbox/{} exists. Leave --rm out.", name);
  if (any_given(flags.create))
    return fmt::format(
        "sandbox/{} exists, and a shell does not change it. Leave the flags out (nodus shell sandbox/{}), or "
        "use "
        "another name.",
        name, name);
  return std::nullopt;
}

struct Opened {
  bool created = false;
  std::string image;
};

class Shell {
 public:
  Shell(Api& api, const ShellFlags& flags) : api_(api), console_(api.console()), flags_(flags) {}

  int run() {
    if (flags_.remove && flags_.keep) return usage_error(console_, "Give --rm or --keep, not both.");
    const bool named = !flags_.create.name.empty();
    name_ = "shell-" + to_hex(random_bytes(4));
    if (named) {
      const auto name = sandbox_name(flags_.create.name);
      if (!name) return report(console_, name.error());
      name_ = *name;
    }
    deletes_ = flags_.remove || (!named && !flags_.keep);
    const DeferredSignals deferred;
    int code = kOk;
    const auto opened = named ? open_named() : create();
    if (!opened) code = fault_ ? *fault_ : report(console_, opened.error());
    if (opened) code = session(*opened);
    return tidy_up(code);
  }

 private:
  Result<Opened> open_named() {
    const auto there = api_.json("GET", "/sandboxes/" + name_);
    if (!there && there.error().code != Code::kNotFound) return std::unexpected(there.error());
    if (!there) return create();
    return existing(there->body);
  }

  Result<Opened> existing(const json::value& sandbox) {
    if (const auto refused = refusal(flags_, name_)) {
      fault_ = usage_error(console_, *refused);
      return fail(Code::kInvalid, "LocalFault", "");
    }
    warn_before_its_end(console_, sandbox);
    return Opened{false, text_at(sandbox, "spec.image")};
  }

  Result<Opened> create() {
    CreateFlags wanted = flags_.create;
    wanted.name = name_;
    // It goes by itself should we be killed before we can delete it.
    if (deletes_ && wanted.on_idle.empty()) wanted.on_idle = "Delete";
    const auto manifest = manifest_from(wanted);
    if (!manifest) return std::unexpected(manifest.error());
    may_exist_ = true;  // from here on: its answer may be lost
    const auto made = api_.json("POST", "/sandboxes", json::serialize(*manifest));
    if (!made) {
      if (!retryable(made.error().code)) may_exist_ = false;
      return std::unexpected(made.error());
    }
    if (made->status == 200) {  // someone else made it meanwhile
      may_exist_ = false;
      return existing(made->body);
    }
    created_ = true;
    console_.err << "sandbox/" << name_ << " created\n";
    if (text_at(made->body, "status.phase") != "Running")
      console_.err << "sandboxes/" << name_ << " is starting; waiting for it" << std::endl;
    return Opened{true, text_at(made->body, "spec.image")};
  }

  int session(const Opened& opened) {
    ExecFlags flags;
    flags.terminal = console_.in_is_terminal;
    const auto end =
        run_session(api_, {.sandbox = name_,
                           .command = flags_.command.empty() ? default_command(opened.image) : flags_.command,
                           .env = terminal_env(console_, flags),
                           .timeout = "24h",  // a shell is open as long as it is needed
                           .workdir = "",
                           .input = true,
                           .terminal = flags.terminal,
                           .starting = opened.created ? Progress::When::kNever : Progress::When::kAtOnce});
    if (!end && end.error().reason == "ReaderLeft") return 128 + SIGPIPE;
    if (!end) return report(console_, end.error());
    if (end->reason == "ParentStopped" && !deletes_) {
      console_.err << "The Sandbox was stopped; nodus shell sandbox/" << name_ << " opens it again.\n";
      return exit_code_of(*end);
    }
    if (end->reason == "Signaled") return exit_code_of(*end);
    return report_end(console_, *end);
  }

  int tidy_up(int code) {
    if (!may_exist_) return code;
    if (!deletes_) {
      if (created_ && flags_.create.name.empty())
        console_.err << "sandbox/" << name_ << " is kept; nodus shell sandbox/" << name_
                     << " opens it again.\n";
      return code;
    }
    api_.heed_signals(false);  // also when a signal is why we end
    const int removed = remove(api_, {"sandbox/" + name_}, false, true);
    if (removed != kOk) console_.err << "sandbox/" << name_ << " may still be there.\n";
    return code != kOk ? code : removed;
  }

  Api& api_;
  Console& console_;
  const ShellFlags& flags_;
  std::string name_;
  bool deletes_ = false, created_ = false, may_exist_ = false;
  std::optional<int> fault_;
};

}  // namespace

int shell(Api& api, const ShellFlags& flags) {
  return Shell(api, flags).run();
}

}  // namespace nodus::cli
