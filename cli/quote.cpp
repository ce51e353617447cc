// What a start would cost, without starting.
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

std::string quote_table(const json::value& quote) {
  const auto text = [&](std::string_view path) {
    const std::string value = text_at(quote, path);
    return value.empty() ? "-" : value;
  };
  std::vector<std::vector<std::string>> rows{
      {"SHAPE",
       text("resources.cpu") + " vCPU, " + text("resources.memory") + ", " + text("resources.disk")}};
  if (!text_at(quote, "machineType").empty()) rows.push_back({"MACHINE", text("machineType")});
  rows.push_back({"RATE", "$" + text("ratePerSecond") + " a second, $" + text("ratePerHour") + " an hour"});
  rows.push_back({"PRICES", text("priceVersion")});
  rows.push_back({"HOLD", "$" + text("hold") + " (" + text("holdSeconds") + " s)"});
  rows.push_back({"AVAILABLE", "$" + text("available") +
                                   (text_at(quote, "funded") == "true" ? "" : ": not enough to start")});
  if (!text_at(quote, "next.effectiveAt").empty())
    rows.push_back({"FROM", text("next.effectiveAt") + " on: $" + text("next.ratePerSecond") + " a second (" +
                                text("next.priceVersion") + ")"});
  return format_table(rows);
}

}  // namespace

int quote(Api& api, const QuoteFlags& flags) {
  Console& console = api.console();
  std::string path = "/quote";
  char mark = '?';
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    path += mark + std::string(name) + "=" + http::escape(value);
    mark = '&';
  };
  add("cpu", flags.cpu);
  add("memory", flags.memory);
  add("disk", flags.disk);
  add("machineType", flags.machine_type);
  const auto answer = api.json("GET", path);
  if (!answer) return report(console, answer.error());
  if (flags.output.empty())
    console.out << quote_table(answer->body);
  else
    console.out << (flags.output == "yaml" ? to_yaml(answer->body) : to_pretty_json(answer->body));
  return kOk;
}

}  // namespace nodus::cli
