#include "cli/bill.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/names.hpp"
#include "cli/output.hpp"
#include "cli/read.hpp"
#include "libs/base/csv.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

constexpr Millis kExportIdle{60'000}, kExportPause{500};
constexpr int kExportAttempts = 5;

struct Column {
  const char* head;
  const char* path;
  bool number = false;
};
using Columns = std::vector<Column>;

Columns columns_of(const std::string& by, bool organization, bool csv) {
  Columns columns;
  if (by == "line") {
    columns = {{"SANDBOX", "sandbox"},       {"KIND", "kind"},       {"FROM", "from"},          {"TO", "to"},
               {"SECONDS", "seconds", true}, {"RATE", "rate", true}, {"AMOUNT", "amount", true}};
    if (csv) {
      columns.push_back({"WAIVED", "waived"});
      columns.push_back({"REASON", "reason"});
      columns.push_back({"START", "start", true});
      columns.push_back({"SANDBOX-UID", "sandboxUid"});
    }
  } else {
    const std::vector<std::pair<std::string, Column>> keys{{"project", {"PROJECT", "project"}},
                                                           {"sandbox", {"SANDBOX", "sandbox"}},
                                                           {"day", {"DAY", "day"}},
                                                           {"reason", {"REASON", "reason"}}};
    const auto key = std::ranges::find(keys, by, [](const auto& k) { return k.first; });
    columns = {key == keys.end() ? Column{"LABEL", "label"} : key->second,
               {"SECONDS", "seconds", true},
               {"WAIVED", "waivedSeconds", true},
               {"OPEN", "open", true},
               {"AMOUNT", "amount", true}};
    if (csv && by == "sandbox") columns.push_back({"SANDBOX-UID", "sandboxUid"});
  }
  if (organization && (by == "line" || by == "sandbox"))
    columns.insert(columns.begin(), {"PROJECT", "project"});
  return columns;
}

std::string cell_of(const json::value& row, const Column& column, const std::string& by) {
  const std::string text = one_line(text_at(row, column.path));
  if (by == "line" && std::string_view(column.head) == "AMOUNT" && text_at(row, "waived") == "true")
    return text + " (waived)";
  return text.empty() ? "-" : text;
}

std::string csv_line(const json::value& row, const Columns& columns) {
  std::string line;
  for (const auto& column : columns) {
    if (!line.empty() || &column != &columns.front()) line += ',';
    const std::string text = text_at(row, column.path);
    line += column.number ? text : csv_text(text);
  }
  return line + "\r\n";
}

std::string csv_head(const Columns& columns) {
  std::string line;
  for (const auto& column : columns) line += (line.empty() ? "" : ",") + std::string(column.head);
  return line + "\r\n";
}

Result<std::string> path_of(Api& api, const BillFlags& flags) {
  std::string path = api.settings().base;
  if (flags.organization) {
    const auto own = organization_path(api);
    if (!own) return std::unexpected(own.error());
    path = api.root() + *own;
  }
  path += "/bill?limit=1000";
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) path += std::string("&") + name + "=" + http::escape(value);
  };
  if (!flags.sandbox.empty()) {
    const auto name = sandbox_name(flags.sandbox);
    if (!name) return std::unexpected(name.error());
    add("sandbox", *name);
  }
  add("by", flags.by);
  add("label", flags.label);
  add("from", flags.from);
  add("to", flags.to);
  add("month", flags.month);
  return path;
}

// Streamed to standard output.
int export_lines(Api& api, const std::string& month, const std::string& format) {
  Console& console = api.console();
  if (month.empty()) return usage_error(console, "Give the month to export, such as --month 2026-11.");
  const auto own = organization_path(api);
  if (!own) return report(console, own.error());
  http::ClientRequest request;
  request.url =
      api.root() + *own + "/export?month=" + http::escape(month) + "&format=" + http::escape(format);
  request.total_time = Millis(0);
  request.idle_time = kExportIdle;
  bool begun = false;
  request.on_body = [&](std::string_view part) {
    begun = true;
    console.out << part;
    return static_cast<bool>(console.out);
  };
  // Not repeated once something was printed: lines would come twice.
  for (int attempt = 1;; ++attempt) {
    const auto answer = api.attempt(request);
    if (answer || !console.out) return kOk;
    if (begun || attempt == kExportAttempts || !retryable(answer.error().code))
      return report(console, answer.error());
    console.sleep(kExportPause * attempt);
  }
}

}  // namespace

void bill_options(CLI::App& command, BillFlags& into) {
  command.add_option("NAME", into.sandbox, "Only this one")->option_text("[NAME]");
  const auto add = [&](const char* flag, std::string& value, const char* help, const char* type) {
    return command.add_option(flag, value, help)->option_text(type);
  };
  add("--by", into.by, "Sums by project, sandbox, day, reason or label:KEY; each line (line)", "WHAT");
  add("--label", into.label, "Only starts with such labels, as team=web,tier=db", "LABELS");
  add("--from", into.from, "A date or an instant, UTC, such as 2026-11-01", "TIME");
  add("--to", into.to, "The same, exclusive (now)", "TIME");
  add("--month", into.month, "A calendar month, UTC, such as 2026-11", "MONTH");
  add("--format", into.format, "Of an export: csv, or focus-1.2 (csv)", "FORMAT")
      ->check(CLI::IsMember({"csv", "focus-1.2"}));
  command.add_flag("--organization", into.organization, "Of all projects");
}

Result<std::string> organization_path(Api& api) {
  const auto answer = api.json_at("GET", api.root() + "/organizations");
  if (!answer) return std::unexpected(answer.error());
  const auto items = items_of(answer->body);
  if (items.empty()) return fail(Code::kInternal, "BadAnswer", "The server names no organization.");
  return "/organizations/" + http::escape(text_at(items.front(), "metadata.name"));
}

int bill(Api& api, const BillFlags& flags) {
  if (flags.sandbox == "export") return export_lines(api, flags.month, flags.format);
  Console& console = api.console();
  const auto path = path_of(api, flags);
  if (!path) return report(console, path.error());
  const std::string by = flags.by.empty() ? "line" : flags.by;
  const char* member = by == "line" ? "lines" : "groups";
  const Columns columns = columns_of(by, flags.organization, flags.output == "csv");
  std::vector<std::string> head;
  for (const auto& column : columns) head.emplace_back(column.head);
  Table table(head);
  json::value whole;
  std::string next;
  do {
    auto answer = api.json_at("GET", *path + (next.empty() ? "" : "&continue=" + http::escape(next)));
    if (!answer) return report(console, answer.error());
    next = text_at(answer->body, "continue");
    std::vector<std::vector<std::string>> rows;
    if (whole.is_null() && flags.output == "csv") console.out << csv_head(columns);
    if (const json::value* found = value_at(answer->body, member); found && found->is_array())
      for (const json::value& row : found->get_array()) {
        if (flags.output == "csv") console.out << csv_line(row, columns);
        if (!flags.output.empty()) continue;
        std::vector<std::string> cells;
        for (const auto& column : columns) cells.push_back(cell_of(row, column, by));
        rows.push_back(std::move(cells));
      }
    if (flags.output.empty() && (!rows.empty() || whole.is_null())) console.out << table.add(rows);
    if (whole.is_null()) {
      whole = std::move(answer->body);
    } else if (flags.output == "json" || flags.output == "yaml") {
      auto& all = whole.as_object()[member].as_array();
      for (json::value& row : answer->body.as_object()[member].as_array()) all.push_back(std::move(row));
    }
  } while (!next.empty() && console.out);
  if (whole.is_object()) whole.as_object().erase("continue");
  if (flags.output == "json") console.out << to_pretty_json(whole);
  if (flags.output == "yaml") console.out << to_yaml(whole);
  if (flags.output.empty()) console.out << "\n" << bill_totals(whole);
  return kOk;
}

}  // namespace nodus::cli
