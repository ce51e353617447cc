// get and events: tables and objects, once or as they change.
#include <algorithm>

#include "cli/commands.hpp"
#include "cli/invoices.hpp"
#include "cli/notices.hpp"
#include "cli/output.hpp"
#include "cli/read.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

constexpr Millis kFirstPause{500}, kLongestPause{10'000};

std::string query_of(const GetFlags& flags) {
  std::string query;
  const auto add = [&](const std::string& part) { query += (query.empty() ? "" : "&") + part; };
  if (!flags.selector.empty()) add("labelSelector=" + http::escape(flags.selector));
  if (!flags.field_selector.empty()) add("fieldSelector=" + http::escape(flags.field_selector));
  if (!flags.sandbox.empty()) add(field_selector("spec.sandbox", flags.sandbox));
  return query;
}

void by_time(std::vector<json::value>& events) {
  std::ranges::sort(events, {}, [](const json::value& e) {
    const auto at = parse_rfc3339(text_at(e, "lastTimestamp"));
    return at ? *at : Instant();
  });
}

// Prints objects as -o says, the same way whether they come at once or one after the other.
class Printer {
 public:
  Printer(Console& console, Kind kind, const std::string& output)
      : console_(console), kind_(kind), output_(output), table_(head_of(kind, output == "wide")) {}

  void show(const std::vector<json::value>& objects) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& object : objects) {
      if (output_ == "name") {
        console_.out << singular(kind_) << "/" << text_at(object, "metadata.name") << "\n";
      } else if (output_ == "json") {
        console_.out << to_pretty_json(object);
      } else if (output_ == "yaml") {
        console_.out << "---\n" << to_yaml(object);
      } else {
        rows.push_back(row_of(kind_, object, output_ == "wide", console_.clock->now()));
      }
    }
    if (!rows.empty()) console_.out << table_.add(rows);
    console_.out.flush();
  }
  bool open() const { return static_cast<bool>(console_.out); }

 private:
  Console& console_;
  const Kind kind_;
  const std::string output_;
  Table table_;
};

void print_document(Console& console, const json::value& value, const std::string& output) {
  console.out << (output == "json" ? to_pretty_json(value) : to_yaml(value));
}

json::value list_of(Kind kind, const std::string& version, std::vector<json::value> items) {
  const char* name = kind == Kind::kSandbox   ? "SandboxList"
                     : kind == Kind::kProcess ? "ProcessList"
                     : kind == Kind::kEvent   ? "EventList"
                                              : "BudgetList";
  return {{"apiVersion", kind == Kind::kEvent ? "v1" : "nodus.dev/v1"},
          {"kind", name},
          {"metadata", {{"resourceVersion", version}}},
          {"items", json::array(items.begin(), items.end())}};
}

void tell_none(Console& console, const Selection& what, const GetFlags& flags) {
  const bool some = !flags.selector.empty() || !flags.field_selector.empty() || !flags.sandbox.empty();
  console.err << "There are no " << plural(what.kind) << (some ? " like that" : "") << " in this project.\n";
}

int get_all(Api& api, const Selection& what, const GetFlags& flags, std::string& version, Printer& printer) {
  auto listed = list_all(api, what.kind, query_of(flags));
  if (!listed) return report(api.console(), listed.error());
  version = listed->version;
  if (what.kind == Kind::kEvent) by_time(listed->items);
  if (!flags.watch && (flags.output == "json" || flags.output == "yaml")) {
    print_document(api.console(), list_of(what.kind, version, std::move(listed->items)), flags.output);
  } else if (listed->items.empty() && !flags.watch && flags.output != "name") {
    tell_none(api.console(), what, flags);
  } else {
    printer.show(listed->items);
  }
  return kOk;
}

// What there is, then each change. Only ^C, or a server that says no, ends it.
int get_and_watch(Api& api, const Selection& what, const GetFlags& flags) {
  Console& console = api.console();
  Printer printer(console, what.kind, flags.output);
  std::string version, query = query_of(flags);
  Millis pause = kFirstPause;
  while (printer.open()) {
    if (version.empty())
      if (const int code = get_all(api, what, flags, version, printer); code != kOk) return code;
    const auto watched =
        watch(api, {.kind = what.kind, .query = query, .version = version}, [&](const Change& change) {
          pause = kFirstPause;
          if (const auto at = text_at(change.object, "metadata.resourceVersion"); !at.empty()) version = at;
          if (change.type == "BOOKMARK") return true;
          json::value object = change.object;
          if (change.type == "DELETED" && what.kind == Kind::kSandbox && flags.output != "json" &&
              flags.output != "yaml")
            object.as_object()["status"].as_object()["phase"] = "Deleted";
          if (change.type == "DELETED" && what.kind == Kind::kBudget && flags.output.empty())
            object.as_object()["metadata"].as_object()["name"] =
                text_at(object, "metadata.name") + " (deleted)";
          printer.show({object});
          return printer.open();
        });
    if (watched == Watched::kUnsupported) {
      console.err << "error: this server does not tell changes; leave -w out.\n";
      return kRefused;
    }
    if (watched == Watched::kExpired) version.clear();
    console.sleep(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  return kOk;
}

int get_named(Api& api, const Selection& what, const GetFlags& flags) {
  Console& console = api.console();
  std::vector<json::value> found;
  int code = kOk;
  for (const Target& target : what.targets) {
    const auto answer = api.json("GET", target.path());
    if (answer) {
      warn_before_its_end(console, answer->body);
      found.push_back(answer->body);
    } else {
      code = report(console, answer.error());
    }
  }
  if (flags.output == "json" || flags.output == "yaml") {
    if (what.targets.size() == 1 && !found.empty()) print_document(console, found.front(), flags.output);
    if (what.targets.size() > 1)
      print_document(
          console,
          {{"apiVersion", "v1"}, {"kind", "List"}, {"items", json::array(found.begin(), found.end())}},
          flags.output);
    return code;
  }
  // A table for each kind, in the order asked for.
  for (const Kind kind : {Kind::kSandbox, Kind::kProcess, Kind::kEvent, Kind::kBudget}) {
    std::vector<json::value> of_kind;
    for (const json::value& object : found) {
      const std::string name = text_at(object, "kind");
      const Kind is = name == "Process"  ? Kind::kProcess
                      : name == "Event"  ? Kind::kEvent
                      : name == "Budget" ? Kind::kBudget
                                         : Kind::kSandbox;
      if (is == kind) of_kind.push_back(object);
    }
    Printer(console, kind, flags.output).show(of_kind);
  }
  return code;
}

}  // namespace

int get(Api& api, const GetFlags& flags) {
  if (about_invoices(flags.words)) return get_invoices(api, flags);
  Console& console = api.console();
  auto what = selection(flags.words);
  if (!what) return report(console, what.error());
  GetFlags given = flags;
  if (!flags.sandbox.empty()) {
    const auto name = sandbox_name(flags.sandbox);
    if (!name) return report(console, name.error());
    if (what->kind != Kind::kProcess || !what->targets.empty())
      return usage_error(console, "--sandbox is for nodus get processes.");
    given.sandbox = *name;
  }
  const bool selects = !flags.selector.empty() || !flags.field_selector.empty();
  if (selects && !what->targets.empty()) return usage_error(console, "Give names or a selector, not both.");
  if (!flags.watch && what->targets.empty()) {
    std::string version;
    Printer printer(console, what->kind, flags.output);
    return get_all(api, *what, given, version, printer);
  }
  if (!flags.watch) return get_named(api, *what, given);
  if (what->targets.size() > 1) return usage_error(console, "Watch one object, or all of a kind.");
  if (!what->targets.empty()) {
    // An error for a name that is not there, rather than silence for ever.
    const Target target = what->targets.front();
    if (const auto there = api.json("GET", target.path()); !there) return report(console, there.error());
    what->kind = target.kind;
    what->targets.clear();
    given.field_selector = "metadata.name=" + target.name;
  }
  return get_and_watch(api, *what, given);
}

int events(Api& api, const GetFlags& flags) {
  GetFlags given = flags;
  given.words = {"events"};
  if (flags.words.size() > 1)
    return usage_error(api.console(), "Give one object, such as sb/hello, or none.");
  if (!flags.words.empty()) {
    const auto targets = targets_of(flags.words);
    if (!targets) return report(api.console(), targets.error());
    const Target& target = targets->front();
    given.field_selector =
        "involvedObject.kind=" + std::string(target.kind == Kind::kProcess ? "Process" : "Sandbox") +
        ",involvedObject.name=" + target.name;
  }
  return get(api, given);
}

}  // namespace nodus::cli
