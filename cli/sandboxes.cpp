// apply, create, get, start, stop, delete, bill.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <utility>

#include "cli/commands.hpp"
#include "cli/names.hpp"
#include "cli/output.hpp"
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

// Says on stderr what a create cannot say on its one line: that money keeps the Sandbox from starting.
void warn_if_unfunded(Console& console, const json::value& sandbox) {
  const json::object* object = sandbox.if_object();
  const json::value* status = object ? object->if_contains("status") : nullptr;
  const json::value* conditions =
      status && status->is_object() ? status->get_object().if_contains("conditions") : nullptr;
  if (!conditions || !conditions->is_array()) return;
  for (const json::value& condition : conditions->get_array())
    if (text_at(condition, "type") == "Funded" && text_at(condition, "status") == "False")
      console.err << "warning: it cannot start yet: " << text_at(condition, "message") << "\n";
}

int send_manifest(Api& api, const json::object& manifest, const std::string& output) {
  const auto made = api.json("POST", "/sandboxes", json::serialize(manifest));
  if (!made) return report(api.console(), made.error());
  Console& console = api.console();
  const std::string name = text_at(made->body, "metadata.name");
  if (output == "name") {
    console.out << "sandbox/" << name << "\n";
  } else if (!output.empty()) {
    print_object(console, made->body, output);
  } else {
    console.out << "sandbox/" << name << (made->status == 201 ? " created\n" : " unchanged\n");
  }
  warn_if_unfunded(console, made->body);
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

std::vector<json::value> items_of(const json::value& list) {
  std::vector<json::value> items;
  const json::object* object = list.if_object();
  const json::value* array = object ? object->if_contains("items") : nullptr;
  if (array && array->is_array()) items.assign(array->get_array().begin(), array->get_array().end());
  return items;
}

enum class Seen { kWaiting, kDone, kFailed };

// Reads the Sandbox until `judge` has seen enough. `gone` is what a 404 means.
int wait_until(Api& api, const std::string& name, const std::string& doing, Seen gone,
               const std::function<Seen(const json::value&)>& judge) {
  Console& console = api.console();
  const Micros begun = console.clock->boot();
  Progress progress(console, fmt::format("sandboxes/{} is {}; waiting for it", name, doing));
  Millis interval(100);
  while (true) {
    const auto sandbox = api.json("GET", sandbox_path(name));
    if (!sandbox) {
      const bool is_gone = sandbox.error().code == Code::kNotFound;
      return is_gone && gone == Seen::kDone ? kOk : report(console, sandbox.error());
    }
    const Seen seen = judge(sandbox->body);
    if (seen == Seen::kDone) return kOk;
    if (seen == Seen::kFailed) {
      console.err << "error: sandboxes/" << name << " is " << text_at(sandbox->body, "status.phase") << ": "
                  << text_at(sandbox->body, "status.reason") << " "
                  << text_at(sandbox->body, "status.message") << "\n";
      return kRefused;
    }
    if (console.clock->boot() - begun > api.settings().wait_for) {
      console.err << "error: sandboxes/" << name << " is still " << doing << "; nodus get sb/" << name
                  << " shows how far it is.\n";
      return kUnreachable;
    }
    progress.waiting();
    console.sleep(interval);
    interval = std::min(interval * 2, Millis(1'000));
  }
}

int set_state(Api& api, const std::string& name, const char* state) {
  const std::string body = json::serialize(json::object{{"spec", {{"state", state}}}});
  const auto changed = api.json("PATCH", sandbox_path(name), body, "application/merge-patch+json");
  return changed ? kOk : report(api.console(), changed.error());
}

}  // namespace

int apply(Api& api, const std::vector<std::string>& files, const std::string& output) {
  std::vector<json::object> manifests;
  for (const std::string& file : files) {
    const auto text = read_text(api.console(), file);
    if (!text) return report(api.console(), text.error());
    auto read = read_manifests(*text, file == "-" ? "standard input" : file);
    if (!read) return report(api.console(), read.error());
    for (json::object& manifest : *read) manifests.push_back(std::move(manifest));
  }
  int code = kOk;
  for (json::object& manifest : manifests) {
    fill_in_image(manifest);
    if (const int sent = send_manifest(api, manifest, output); sent != kOk) code = sent;
    if (code == kUnreachable) break;
  }
  return code;
}

int create_sandbox(Api& api, const CreateFlags& flags, const std::string& output) {
  CreateFlags named = flags;
  const auto name = sandbox_name(flags.name);
  if (!name) return report(api.console(), name.error());
  named.name = *name;
  return send_manifest(api, manifest_from(named), output);
}

int get(Api& api, const std::string& resource, const std::string& name, const std::string& output) {
  Console& console = api.console();
  const auto target = get_target(resource, name);
  if (!target) return report(console, target.error());
  const bool processes = target->kind == Target::Kind::kProcesses;
  const std::string path = processes ? "/processes" : "/sandboxes";
  const auto answer = api.json("GET", target->name.empty() ? path : path + "/" + http::escape(target->name));
  if (!answer) return report(console, answer.error());
  if (output == "json" || output == "yaml") {
    print_object(console, answer->body, output);
    return kOk;
  }
  const std::vector<json::value> items =
      target->name.empty() ? items_of(answer->body) : std::vector<json::value>{answer->body};
  if (output == "name") {
    for (const json::value& item : items)
      console.out << (processes ? "process/" : "sandbox/") << text_at(item, "metadata.name") << "\n";
  } else if (items.empty()) {
    console.err << "There are no " << (processes ? "processes" : "sandboxes") << " in this project.\n";
  } else {
    console.out << (processes ? process_table(items, console.clock->now())
                              : sandbox_table(items, console.clock->now()));
  }
  return kOk;
}

int start(Api& api, const std::string& sandbox, bool wait) {
  const auto name = sandbox_name(sandbox);
  if (!name) return report(api.console(), name.error());
  if (const int code = set_state(api, *name, "Running"); code != kOk || !wait) return code;
  return wait_until(api, *name, "starting", Seen::kFailed, [](const json::value& seen) {
    const std::string phase = text_at(seen, "status.phase");
    if (phase == "Running") return Seen::kDone;
    return phase == "Failed" || phase == "Terminating" || phase == "Stopped" ? Seen::kFailed : Seen::kWaiting;
  });
}

int stop(Api& api, const std::string& sandbox, bool wait) {
  const auto name = sandbox_name(sandbox);
  if (!name) return report(api.console(), name.error());
  if (const int code = set_state(api, *name, "Stopped"); code != kOk || !wait) return code;
  return wait_until(api, *name, "stopping", Seen::kFailed, [](const json::value& seen) {
    const std::string phase = text_at(seen, "status.phase");
    if (phase == "Stopped") return Seen::kDone;
    return phase == "Failed" || phase == "Terminating" ? Seen::kFailed : Seen::kWaiting;
  });
}

int remove(Api& api, const std::string& sandbox, bool wait) {
  const auto name = sandbox_name(sandbox);
  if (!name) return report(api.console(), name.error());
  const auto answer = api.json("DELETE", sandbox_path(*name));
  // A repeat that finds nothing means that the first one, whose answer was lost, was heard.
  const bool gone = !answer && answer.error().code == Code::kNotFound && api.attempts() > 1;
  if (!answer && !gone) return report(api.console(), answer.error());
  if (gone || !wait) return kOk;
  const std::string uid = text_at(answer->body, "metadata.uid");
  return wait_until(api, *name, "being deleted", Seen::kDone, [uid](const json::value& seen) {
    // Another Sandbox may have the name by now.
    return !uid.empty() && text_at(seen, "metadata.uid") != uid ? Seen::kDone : Seen::kWaiting;
  });
}

int bill(Api& api, const std::string& sandbox, const std::string& output) {
  Console& console = api.console();
  std::string path = "/bill";
  if (!sandbox.empty()) {
    const auto name = sandbox_name(sandbox);
    if (!name) return report(console, name.error());
    path += "?sandbox=" + http::escape(*name);
  }
  const auto answer = api.json("GET", path);
  if (!answer) return report(console, answer.error());
  if (output.empty()) {
    console.out << bill_table(answer->body);
  } else {
    print_object(console, answer->body, output);
  }
  return kOk;
}

}  // namespace nodus::cli
