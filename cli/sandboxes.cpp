// apply, create, start, stop, delete.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <utility>

#include "cli/commands.hpp"
#include "cli/names.hpp"
#include "cli/notices.hpp"
#include "cli/output.hpp"
#include "cli/read.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

std::string sandbox_path(const std::string& name) {
  return "/sandboxes/" + http::escape(name);
}

void print_object(Console& console, const json::value& value, const std::string& output) {
  console.out << (output == "json" ? to_pretty_json(value) : to_yaml(value));
}

int send_manifest(Api& api, const json::object& manifest, const std::string& output, bool dry_run) {
  if (text_at(manifest, "kind") == "Budget") return send_budget(api, manifest, output, dry_run, true);
  const auto made =
      api.json("POST", dry_run ? "/sandboxes?dryRun=All" : "/sandboxes", json::serialize(manifest));
  if (!made) return report(api.console(), made.error());
  Console& console = api.console();
  const std::string name = text_at(made->body, "metadata.name");
  if (output == "name") {
    console.out << "sandbox/" << name << "\n";
  } else if (!output.empty()) {
    print_object(console, made->body, output);
  } else {
    console.out << "sandbox/" << name << (made->status == 201 ? " created" : " unchanged")
                << (dry_run ? " (dry run)\n" : "\n");
  }
  warn_if_unfunded(console, made->body);
  warn_before_its_end(console, made->body);
  return kOk;
}

Result<std::string> read_text(Console& console, const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(console.in), {});
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    return fail(Code::kInvalid, "LocalFault", fmt::format("\"{}\" cannot be read, or is empty.", file));
  return text.str();
}

Result<JsonAnswer> set_state(Api& api, const std::string& name, const char* state) {
  const std::string body = json::serialize(json::object{{"spec", {{"state", state}}}});
  return api.json("PATCH", sandbox_path(name), body, "application/merge-patch+json");
}

int64_t starts_of(const json::value& sandbox) {
  const auto* starts = value_at(sandbox, "status.starts");
  return starts != nullptr && starts->is_int64() ? starts->get_int64() : 0;
}

}  // namespace

int apply(Api& api, const ApplyFlags& flags) {
  std::vector<json::object> manifests;
  for (const std::string& file : flags.files) {
    const auto text = read_text(api.console(), file);
    if (!text) return report(api.console(), text.error());
    auto read = read_manifests(*text, file == "-" ? "standard input" : file);
    if (!read) return report(api.console(), read.error());
    for (json::object& manifest : *read) manifests.push_back(std::move(manifest));
  }
  int code = kOk;
  for (json::object& manifest : manifests) {
    if (text_at(manifest, "kind") != "Budget") fill_in_image(manifest);
    if (const int sent = send_manifest(api, manifest, flags.output, flags.dry_run); sent != kOk) code = sent;
    if (code == kUnreachable) break;
  }
  return code;
}

int create_sandbox(Api& api, const CreateFlags& flags, const std::string& output, bool dry_run) {
  CreateFlags named = flags;
  const auto name = sandbox_name(flags.name);
  if (!name) return report(api.console(), name.error());
  named.name = *name;
  const auto manifest = manifest_from(named);
  if (!manifest) return report(api.console(), manifest.error());
  return send_manifest(api, *manifest, output, dry_run);
}

namespace {

// All are asked first and then waited for, so that they go at the same time.
int change_all(Api& api, const std::vector<std::string>& words, bool wait,
               const std::function<int(const Target&, Waiting&)>& change) {
  const auto targets = targets_of(words);
  if (!targets) return report(api.console(), targets.error());
  int code = kOk;
  std::vector<Waiting> waits;
  for (const Target& target : *targets) {
    Waiting waiting{.target = target, .doing = "", .patience = api.settings().wait_for};
    const int asked = change(target, waiting);
    if (asked != kOk) code = asked;
    if (asked == kUnreachable) return code;
    if (asked == kOk && waiting.judge) waits.push_back(std::move(waiting));
  }
  if (!wait) return code;
  for (const Waiting& waiting : waits)
    if (const int waited = wait_until(api, waiting); waited != kOk) code = waited;
  return code;
}

int only_sandboxes(Api& api, const Target& target) {
  return usage_error(api.console(), "\"" + target.text() + "\" is not a Sandbox such as sb/hello.");
}

}  // namespace

int start(Api& api, const std::vector<std::string>& sandboxes, bool wait) {
  return change_all(api, sandboxes, wait, [&](const Target& target, Waiting& waiting) {
    if (target.kind != Kind::kSandbox) return only_sandboxes(api, target);
    waiting.doing = "starting";
    waiting.judge = [](const json::value& seen) {
      const std::string phase = text_at(seen, "status.phase");
      if (phase == "Running") return Seen::kDone;
      return phase == "Failed" || phase == "Terminating" || phase == "Stopped" ? Seen::kFailed
                                                                               : Seen::kWaiting;
    };
    const auto changed = set_state(api, target.name, "Running");
    return changed ? kOk : report(api.console(), changed.error());
  });
}

int stop(Api& api, const std::vector<std::string>& sandboxes, bool wait) {
  return change_all(api, sandboxes, wait, [&](const Target& target, Waiting& waiting) {
    if (target.kind != Kind::kSandbox) return only_sandboxes(api, target);
    const auto changed = set_state(api, target.name, "Stopped");
    if (!changed) return report(api.console(), changed.error());
    waiting.doing = "stopping";
    waiting.judge = [starts = starts_of(changed->body)](const json::value& seen) {
      const std::string phase = text_at(seen, "status.phase");
      // A later start: it had stopped, and what uses it has woken it before anybody saw that.
      if (phase == "Stopped" || starts_of(seen) > starts) return Seen::kDone;
      return phase == "Failed" || phase == "Terminating" ? Seen::kFailed : Seen::kWaiting;
    };
    return static_cast<int>(kOk);
  });
}

int remove(Api& api, const std::vector<std::string>& words, bool wait, bool missing_is_fine) {
  return change_all(api, words, wait, [&](const Target& target, Waiting& waiting) {
    if (target.kind == Kind::kEvent) return only_sandboxes(api, target);
    const auto answer = api.json("DELETE", target.path());
    if (answer && target.kind == Kind::kBudget) return kOk;
    // A repeat that finds nothing means that the first one, whose answer was lost, was heard.
    const bool gone =
        !answer && answer.error().code == Code::kNotFound && (api.attempts() > 1 || missing_is_fine);
    if (gone) return kOk;
    if (!answer) return report(api.console(), answer.error());
    if (target.kind == Kind::kProcess) {  // cancels the command; the record of it stays
      waiting.doing = "being cancelled";
      waiting.judge = [](const json::value& seen) {
        return text_at(seen, "status.phase") == "Ended" ? Seen::kDone : Seen::kWaiting;
      };
      return kOk;
    }
    waiting.doing = "being deleted";
    waiting.gone = Seen::kDone;
    waiting.judge = [uid = text_at(answer->body, "metadata.uid")](const json::value& seen) {
      // Another Sandbox may have the name by now.
      return !uid.empty() && text_at(seen, "metadata.uid") != uid ? Seen::kDone : Seen::kWaiting;
    };
    return kOk;
  });
}

}  // namespace nodus::cli
