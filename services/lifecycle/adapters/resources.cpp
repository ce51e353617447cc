#include "services/lifecycle/adapters/resources.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "libs/money/money.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

using CellForm = Column::Form;

constexpr std::string_view kSandboxShort[] = {"sb"};
constexpr std::string_view kProcessShort[] = {"proc"};
constexpr std::string_view kEventShort[] = {"ev"};
constexpr std::string_view kBudgetShort[] = {"bud"};
constexpr std::string_view kChangeVerbs[] = {"create", "delete", "get", "list", "patch", "update", "watch"};
constexpr std::string_view kReadVerbs[] = {"get", "list", "watch"};
constexpr std::string_view kSandboxFields[] = {"metadata.name", "metadata.namespace", "status.phase"};
constexpr std::string_view kProcessFields[] = {"metadata.name", "metadata.namespace", "spec.sandbox",
                                               "status.phase"};
constexpr std::string_view kEventFields[] = {"metadata.name",
                                             "metadata.namespace",
                                             "involvedObject.apiVersion",
                                             "involvedObject.kind",
                                             "involvedObject.namespace",
                                             "involvedObject.name",
                                             "involvedObject.uid",
                                             "reportingComponent",
                                             "type",
                                             "reason"};
constexpr std::string_view kBudgetFields[] = {"metadata.name", "metadata.namespace"};
constexpr Column kSandboxColumns[] = {
    {"Name", "metadata.name", CellForm::kText, 0, "Unique in the project."},
    {"Phase", "status.phase", CellForm::kText, 0, "Pending, Starting, Running, Stopping, Stopped, Failed …"},
    {"Activity", "status.activity", CellForm::kText, 0, "Busy: a command runs."},
    {"CPU", "spec.resources.cpu", CellForm::kText, 0, "vCPU asked for."},
    {"Memory", "spec.resources.memory", CellForm::kText, 0, "Memory asked for."},
    {"GPU", "", CellForm::kText, 0, "GPU Sandboxes are not available yet."},
    {"Cost", "status.cost", CellForm::kCost, 0, "USD so far."},
    {"Age", "metadata.creationTimestamp", CellForm::kAge, 0, "Since it was created."},
    {"Image", "spec.image", CellForm::kText, 1, "What it is made of."},
    {"Reason", "status.stopReason", CellForm::kText, 1, "Why it stopped."}};
constexpr Column kProcessColumns[] = {
    {"Name", "metadata.name", CellForm::kText, 0, "Unique in the project."},
    {"Sandbox", "spec.sandbox", CellForm::kText, 0, "Where it runs."},
    {"Phase", "status.phase", CellForm::kText, 0, "Running or Ended."},
    {"Reason", "status.reason", CellForm::kText, 0, "How it ended; none for exit code 0."},
    {"Exit Code", "status.exitCode", CellForm::kNumber, 0, "Of the command."},
    {"Age", "metadata.creationTimestamp", CellForm::kAge, 0, "Since it was admitted."},
    {"Command", "spec.command", CellForm::kCommand, 1, "The program and its arguments."}};
constexpr Column kEventColumns[] = {
    {"Last Seen", "lastTimestamp", CellForm::kAge, 0, "Since it happened last."},
    {"Type", "type", CellForm::kText, 0, "Normal or Warning."},
    {"Reason", "reason", CellForm::kText, 0, "What happened, as one word."},
    {"Object", "involvedObject", CellForm::kObject, 0, "To what."},
    {"Message", "message", CellForm::kText, 0, "What happened, as a sentence."},
    {"Count", "count", CellForm::kNumber, 1, "How often."},
    {"Name", "metadata.name", CellForm::kText, 1, "Of the Event."}};

constexpr Column kBudgetColumns[] = {
    {"Name", "metadata.name", CellForm::kText, 0, "Unique in the project."},
    {"Period", "spec.period", CellForm::kText, 0, "Monthly (calendar months, UTC) or Total."},
    {"Limit", "spec.limitUSD", CellForm::kCost, 0, "USD that may be spent."},
    {"Spent", "status.spentUSD", CellForm::kCost, 0, "USD that count, what runs included."},
    {"Held", "status.heldUSD", CellForm::kCost, 0, "USD set aside for starts that are funded or run."},
    {"Remaining", "status.remainingUSD", CellForm::kCost, 0, "USD left of the limit."},
    {"Exhausted", "status.exhaustedAt", CellForm::kAge, 0, "Since the limit was reached."},
    {"Age", "metadata.creationTimestamp", CellForm::kAge, 0, "Since it was created."},
    {"Resets", "status.resetsAt", CellForm::kText, 1, "When a Monthly one counts anew."},
    {"Threshold", "status.thresholdReachedPercent", CellForm::kNumber, 1, "The highest that was reached."}};

const json::value* member(const json::object& object, std::string_view path) {
  const json::object* at = &object;
  while (true) {
    const size_t dot = path.find('.');
    const auto* value = at->if_contains(path.substr(0, dot));
    if (!value || dot == std::string_view::npos) return value;
    at = value->if_object();
    if (!at) return nullptr;
    path.remove_prefix(dot + 1);
  }
}

std::string command_line(const json::value& value) {
  std::string out;
  for (const auto& argument : value.as_array())
    if (argument.is_string()) out += (out.empty() ? "" : " ") + std::string(argument.get_string());
  return out;
}

std::string object_name(const json::object& involved) {
  std::string kind(involved.at("kind").as_string());
  std::ranges::transform(kind, kind.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return kind + "/" + std::string(involved.at("name").as_string());
}

json::value cell(const json::object& object, const Column& column, Instant now) {
  const json::value* value = column.path.empty() ? nullptr : member(object, column.path);
  if (!value) return column.form == CellForm::kNumber ? json::value(nullptr) : json::value("-");
  switch (column.form) {
    case CellForm::kAge: {
      const auto at = parse_rfc3339(std::string_view(value->as_string()));
      return at ? json::value(human_age(now - *at)) : json::value("<unknown>");
    }
    case CellForm::kCost: {
      const auto cost = Money::parse(std::string_view(value->as_string()));
      return cost ? json::value(cost->to_display()) : *value;
    }
    case CellForm::kObject:
      return json::value(object_name(value->as_object()));
    case CellForm::kCommand:
      return json::value(command_line(*value));
    case CellForm::kText:
      if (value->is_string() && value->get_string().empty()) return json::value("-");
      return *value;
    case CellForm::kNumber:
      break;
  }
  return *value;
}

std::string_view type_of(CellForm form) {
  return form == CellForm::kNumber ? "integer" : "string";
}

}  // namespace

const Resource& sandbox_resource() {
  static const Resource kResource{"sandboxes",   "sandbox",    "Sandbox",      "nodus.dev/v1",
                                  kSandboxShort, kChangeVerbs, kSandboxFields, kSandboxColumns};
  return kResource;
}
const Resource& process_resource() {
  static const Resource kResource{"processes",   "process",  "Process",      "nodus.dev/v1",
                                  kProcessShort, kReadVerbs, kProcessFields, kProcessColumns};
  return kResource;
}
const Resource& event_resource() {
  static const Resource kResource{"events",    "event",    "Event",      "v1",
                                  kEventShort, kReadVerbs, kEventFields, kEventColumns};
  return kResource;
}
const Resource& budget_resource() {
  static const Resource kResource{"budgets",    "budget",     "Budget",      "nodus.dev/v1",
                                  kBudgetShort, kChangeVerbs, kBudgetFields, kBudgetColumns};
  return kResource;
}
std::span<const Resource* const> resources() {
  static const Resource* const kAll[] = {&sandbox_resource(), &process_resource(), &event_resource(),
                                         &budget_resource()};
  return kAll;
}

json::object metadata_only(const json::object& object, std::string_view kind) {
  json::object out{{"kind", kind}, {"apiVersion", "meta.k8s.io/v1"}};
  if (const auto* metadata = object.if_contains("metadata")) out["metadata"] = *metadata;
  return out;
}

json::object render_table(const Resource& resource, std::span<const json::object> objects,
                          json::object metadata, Form::Include include, bool definitions, Instant now) {
  json::array columns;
  if (definitions)
    for (const auto& column : resource.columns)
      columns.push_back({{"name", column.name},
                         {"type", type_of(column.form)},
                         {"format", column.name == "Name" ? "name" : ""},
                         {"description", column.description},
                         {"priority", column.priority}});
  json::array rows;
  for (const auto& object : objects) {
    json::array cells;
    for (const auto& column : resource.columns) cells.push_back(cell(object, column, now));
    json::object row{{"cells", std::move(cells)}};
    if (include == Form::Include::kMetadata) row["object"] = metadata_only(object, "PartialObjectMetadata");
    if (include == Form::Include::kObject) row["object"] = object;
    rows.push_back(std::move(row));
  }
  return {{"kind", "Table"},
          {"apiVersion", "meta.k8s.io/v1"},
          {"metadata", std::move(metadata)},
          {"columnDefinitions", std::move(columns)},
          {"rows", std::move(rows)}};
}

json::object in_form(const Resource& resource, const Form& form, json::object object, bool definitions,
                     Instant now) {
  if (form.as == Form::As::kMetadata) return metadata_only(object, "PartialObjectMetadata");
  if (form.as == Form::As::kObject) return object;
  json::object metadata;
  if (const auto* own = member(object, "metadata.resourceVersion")) metadata["resourceVersion"] = *own;
  return render_table(resource, {&object, 1}, std::move(metadata), form.include, definitions, now);
}

std::string human_age(Micros age) {
  const int64_t s = std::max<int64_t>(0, std::chrono::floor<Seconds>(age).count());
  const auto two = [](int64_t large, std::string_view l, int64_t small, std::string_view m) {
    return small == 0 ? fmt::format("{}{}", large, l) : fmt::format("{}{}{}{}", large, l, small, m);
  };
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 3600;
  constexpr int64_t kDay = 86'400;
  if (s < 2 * kMinute) return fmt::format("{}s", s);
  if (s < 10 * kMinute) return two(s / kMinute, "m", s % kMinute, "s");
  if (s < 3 * kHour) return fmt::format("{}m", s / kMinute);
  if (s < 8 * kHour) return two(s / kHour, "h", s % kHour / kMinute, "m");
  if (s < 2 * kDay) return fmt::format("{}h", s / kHour);
  if (s < 8 * kDay) return two(s / kDay, "d", s % kDay / kHour, "h");
  return fmt::format("{}d", s / kDay);
}

}  // namespace nodus::lifecycle
