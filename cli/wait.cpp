// wait: until an object is in a phase, has a condition, or is gone.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/read.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

struct Wanted {
  enum class What { kPhase, kCondition, kGone } what = What::kPhase;
  std::string name;             // of the phase or the condition
  std::string status = "True";  // of the condition
};

// phase=Running, condition=Ready, condition=Ready=False, delete. Without regard to case.
Result<Wanted> wanted_of(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string what = lower(text.substr(0, equals));
  const std::string rest = equals == std::string::npos ? "" : text.substr(equals + 1);
  if ((what == "delete" || what == "deleted") && equals == std::string::npos)
    return Wanted{Wanted::What::kGone, "", ""};
  if (what == "phase" && !rest.empty()) return Wanted{Wanted::What::kPhase, rest, ""};
  if (what == "condition" && !rest.empty()) {
    const size_t second = rest.find('=');
    return Wanted{Wanted::What::kCondition, rest.substr(0, second),
                  second == std::string::npos ? "True" : rest.substr(second + 1)};
  }
  return fail(
      Code::kInvalid, "LocalFault",
      "--for is phase=Running, condition=Ready (or condition=Ready=False) or delete, not \"" + text + "\".");
}

// It will not get there by itself any more: waiting on would only take time.
bool is_lost(const Target& target, const json::value& object, const Wanted& wanted) {
  const std::string phase = lower(text_at(object, "status.phase"));
  if (wanted.what == Wanted::What::kPhase && phase == lower(wanted.name)) return false;
  return target.kind == Kind::kProcess ? phase == "ended" : phase == "failed" || phase == "terminating";
}

bool has_condition(const json::value& object, const Wanted& wanted) {
  const json::value* conditions = value_at(object, "status.conditions");
  if (!conditions || !conditions->is_array()) return false;
  return std::ranges::any_of(conditions->get_array(), [&](const json::value& c) {
    return lower(text_at(c, "type")) == lower(wanted.name) &&
           lower(text_at(c, "status")) == lower(wanted.status);
  });
}

}  // namespace

int wait(Api& api, const WaitFlags& flags) {
  Console& console = api.console();
  const auto targets = targets_of(flags.words);
  if (!targets) return report(console, targets.error());
  const auto wanted = wanted_of(flags.wanted);
  if (!wanted) return report(console, wanted.error());
  const Micros begun = console.clock->boot();
  for (const Target& target : *targets) {
    const bool goes = wanted->what == Wanted::What::kGone;
    std::string uid;
    Waiting waiting{
        .target = target,
        .doing = goes                                   ? "still there"
                 : wanted->what == Wanted::What::kPhase ? "not yet " + wanted->name
                                                        : "not yet " + flags.wanted,
        .gone = goes ? Seen::kDone : Seen::kFailed,
        .patience = std::max<Micros>(flags.patience - (console.clock->boot() - begun), Micros(0))};
    waiting.judge = [&](const json::value& object) {
      if (goes) {
        // Another Sandbox may have the name by now.
        const std::string now = text_at(object, "metadata.uid");
        if (uid.empty()) uid = now;
        return now == uid ? Seen::kWaiting : Seen::kDone;
      }
      const bool met = wanted->what == Wanted::What::kPhase
                           ? lower(text_at(object, "status.phase")) == lower(wanted->name)
                           : has_condition(object, *wanted);
      if (met) return Seen::kDone;
      return is_lost(target, object, *wanted) ? Seen::kFailed : Seen::kWaiting;
    };
    if (const int code = wait_until(api, waiting); code != kOk) return code;
    console.out << singular(target.kind) << "/" << target.name << (goes ? " deleted\n" : " condition met\n");
  }
  return kOk;
}

}  // namespace nodus::cli
