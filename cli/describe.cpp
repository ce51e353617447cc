// describe: everything there is to know about one object, for a person.
#include <fmt/format.h>

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

constexpr size_t kRecent = 10;

// Lines of "Name:   value"; what is not there is left out.
class Sheet {
 public:
  explicit Sheet(std::ostream& out) : out_(out) {}
  void line(const std::string& name, const std::string& value) {
    if (!value.empty()) out_ << fmt::format("{:<16}{}\n", name + ":", one_line(value));
  }
  void section(const std::string& name) { out_ << "\n" << name << ":\n"; }
  void table(const std::string& text) {
    size_t from = 0;
    while (from < text.size()) {
      const size_t end = text.find('\n', from);
      out_ << "  " << text.substr(from, end - from) << "\n";
      from = end + 1;
    }
  }

 private:
  std::ostream& out_;
};

std::string pairs(const json::value& object, std::string_view path) {
  std::string out;
  if (const json::value* found = value_at(object, path); found && found->is_object())
    for (const auto& [key, value] : found->get_object())
      out += (out.empty() ? "" : ", ") + std::string(key) + "=" +
             (value.is_string() ? std::string(value.get_string()) : text_at(value, ""));
  return out;
}

std::string ago(const json::value& object, std::string_view path, Instant now) {
  const std::string text = text_at(object, path);
  const auto at = parse_rfc3339(text);
  if (!at) return text;
  return *at > now ? fmt::format("{} (in {})", text, format_age(*at - now))
                   : fmt::format("{} ({} ago)", text, format_age(now - *at));
}

std::string size_text(const std::string& bytes) {
  const double value = bytes.empty() ? 0 : std::stod(bytes);
  if (value < 1024) return bytes + " bytes";
  return value < 1024.0 * 1024 ? fmt::format("{:.1f} KiB", value / 1024)
                               : fmt::format("{:.1f} MiB", value / 1024 / 1024);
}

void describe_what_is(Sheet& sheet, const json::value& o, Instant now) {
  const auto text = [&](std::string_view path) { return text_at(o, path); };
  sheet.line("Name", text("metadata.name"));
  sheet.line("Project", text("metadata.namespace"));
  sheet.line("UID", text("metadata.uid"));
  sheet.line("Created", ago(o, "metadata.creationTimestamp", now));
  sheet.line("Labels", pairs(o, "metadata.labels"));
  sheet.line("Annotations", pairs(o, "metadata.annotations"));
  sheet.line("Phase", text("status.phase") +
                          (text("status.reason").empty() ? "" : " (" + text("status.reason") + ")"));
  sheet.line("Message", text("status.message"));
  sheet.line("Activity", text("status.activity"));
  sheet.line("Awake because", text("status.awakeBecause"));
  sheet.line("Stop reason", text("status.stopReason"));
  const std::string next = next_of(o, now);
  sheet.line("Next", next.empty() ? "" : next + ". " + text("status.next.message"));
  sheet.line("Stops", ago(o, "status.stopsAt", now));
  sheet.line("Deleted", ago(o, "status.deletesAt", now));
  if (!text("status.restorePoint.at").empty())
    sheet.line("Restore point", ago(o, "status.restorePoint.at", now) + ", " +
                                    size_text(text("status.restorePoint.sizeBytes")));
  const std::string rate = text("status.rate");
  sheet.line("Cost",
             format_cost(text("status.cost")) + (rate.empty() ? "" : fmt::format(", at ${} a second", rate)));
  sheet.line("Starts", text("status.starts"));
  sheet.line("Runtime", text("status.runtime"));
  sheet.line("Isolation", text("status.isolation"));
}

void describe_spec(Sheet& sheet, const json::value& o) {
  const auto text = [&](std::string_view path) { return text_at(o, path); };
  sheet.section("Spec");
  std::string rows;
  const auto row = [&](const char* name, const std::string& value) {
    if (!value.empty()) rows += fmt::format("{:<14}{}\n", name, one_line(value));
  };
  row("state", text("spec.state"));
  row("image", text("spec.image"));
  row("resources", fmt::format("{} vCPU, {} memory, {} disk", text("spec.resources.cpu"),
                               text("spec.resources.memory"), text("spec.resources.disk")));
  row("egress", text("spec.network.egress.policy"));
  row("idleTimeout", text("spec.lifecycle.idleTimeout"));
  row("onIdle", text("spec.lifecycle.onIdle"));
  row("maxLifetime", text("spec.lifecycle.maxLifetime"));
  row("continuity", text("spec.continuity.mode"));
  row("workingDir", text("spec.workingDir"));
  row("maxCostUSD", text("spec.maxCostUSD"));
  row("env", pairs(o, "spec.env"));
  sheet.table(rows);
}

void describe_conditions(Sheet& sheet, const json::value& o, Instant now) {
  const json::value* conditions = value_at(o, "status.conditions");
  if (!conditions || !conditions->is_array() || conditions->get_array().empty()) return;
  std::vector<std::vector<std::string>> rows{{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}};
  for (const json::value& c : conditions->get_array()) {
    const auto at = parse_rfc3339(text_at(c, "lastTransitionTime"));
    rows.push_back({text_at(c, "type"), text_at(c, "status"), text_at(c, "reason"),
                    at ? format_age(now - *at) : "-", one_line(text_at(c, "message"))});
  }
  sheet.section("Conditions");
  sheet.table(format_table(rows));
}

void describe_list(Api& api, Sheet& sheet, Kind kind, const char* title, const std::string& query) {
  const auto listed = list_all(api, kind, query);
  if (!listed || listed->items.empty()) return;  // what was asked for is shown; this is more
  const Instant now = api.console().clock->now();
  std::vector<json::value> items = listed->items;
  const auto time = [&](const json::value& o) {
    return text_at(o, kind == Kind::kEvent ? "lastTimestamp" : "metadata.creationTimestamp");
  };
  std::ranges::sort(items, [&](const auto& a, const auto& b) { return time(a) < time(b); });
  if (items.size() > kRecent) items.erase(items.begin(), items.end() - kRecent);
  std::vector<std::vector<std::string>> rows;
  for (const json::value& item : items) rows.push_back(row_of(kind, item, false, now));
  sheet.section(title);
  sheet.table(Table(head_of(kind, false)).add(rows));
}

std::string about(const char* kind, const std::string& name) {
  return "fieldSelector=" +
         http::escape(fmt::format("involvedObject.kind={},involvedObject.name={}", kind, name));
}

void describe_process(Sheet& sheet, const json::value& o, Instant now) {
  const auto text = [&](std::string_view path) { return text_at(o, path); };
  sheet.line("Name", text("metadata.name"));
  sheet.line("Sandbox", text("spec.sandbox"));
  sheet.line("Command", command_line(o));
  sheet.line("Working dir", text("spec.workingDir"));
  sheet.line("Terminal", text("spec.tty"));
  sheet.line("Timeout", text("spec.timeout"));
  sheet.line("Phase", text("status.phase"));
  sheet.line("Reason", text("status.reason"));
  sheet.line("Exit code", text("status.exitCode"));
  sheet.line("Message", text("status.message"));
  sheet.line("Admitted", ago(o, "metadata.creationTimestamp", now));
  sheet.line("Started", ago(o, "status.startedAt", now));
  sheet.line("Ended", ago(o, "status.endedAt", now));
}

void describe_budget(Sheet& sheet, const json::value& o, Instant now) {
  const auto text = [&](std::string_view path) { return text_at(o, path); };
  sheet.line("Name", text("metadata.name"));
  sheet.line("Project", text("metadata.namespace"));
  sheet.line("Labels", pairs(o, "metadata.labels"));
  sheet.line("Annotations", pairs(o, "metadata.annotations"));
  sheet.line("Created", ago(o, "metadata.creationTimestamp", now));
  sheet.line("Period", text("spec.period"));
  sheet.line("Limit", format_cost(text("spec.limitUSD")));
  sheet.line("Spent", format_cost(text("status.spentUSD")));
  sheet.line("Held", format_cost(text("status.heldUSD")));
  sheet.line("Remaining", format_cost(text("status.remainingUSD")));
  sheet.line("Exhausted", ago(o, "status.exhaustedAt", now));
  sheet.line("Resets", ago(o, "status.resetsAt", now));
  sheet.line("Thresholds", text("spec.thresholdsPercent"));
}

}  // namespace

int describe(Api& api, const std::vector<std::string>& words) {
  if (about_invoices(words)) return describe_invoices(api, words);
  Console& console = api.console();
  const auto targets = targets_of(words);
  if (!targets) return report(console, targets.error());
  int code = kOk;
  bool first = true;
  for (const Target& target : *targets) {
    const auto answer = api.json("GET", target.path());
    if (!answer) {
      code = report(console, answer.error());
      continue;
    }
    if (!first) console.out << "\n";
    first = false;
    warn_before_its_end(console, answer->body);
    const Instant now = console.clock->now();
    Sheet sheet(console.out);
    if (target.kind == Kind::kBudget) {
      describe_budget(sheet, answer->body, now);
      describe_conditions(sheet, answer->body, now);
    } else if (target.kind == Kind::kEvent) {
      console.out << to_yaml(answer->body);
    } else if (target.kind == Kind::kProcess) {
      describe_process(sheet, answer->body, now);
      describe_list(api, sheet, Kind::kEvent, "Events", about("Process", target.name));
    } else {
      describe_what_is(sheet, answer->body, now);
      describe_spec(sheet, answer->body);
      describe_conditions(sheet, answer->body, now);
      describe_list(api, sheet, Kind::kProcess, "Latest processes",
                    field_selector("spec.sandbox", target.name));
      describe_list(api, sheet, Kind::kEvent, "Latest events", about("Sandbox", target.name));
    }
  }
  return code;
}

}  // namespace nodus::cli
