#include "services/metering/adapters/http/budget_object.hpp"

#include <algorithm>

#include "libs/base/names.hpp"
#include "services/metering/adapters/http/json_faults.hpp"

namespace nodus::metering {

namespace json = boost::json;

namespace {

using Faults = JsonFaults;

void read_limit(Faults& faults, const json::object& spec, budget::Spec& out) {
  const std::string path = "spec.limitUSD";
  const auto text = faults.text(spec, "limitUSD", path, "An amount is a string, such as \"100.00\".");
  const auto* given = spec.if_contains("limitUSD");
  if (given == nullptr || given->is_null())
    return faults.add(path, "FieldValueRequired", "A Budget needs a limit, such as \"100.00\".");
  if (!given->is_string()) return;
  const auto amount = Money::parse(text);
  if (!amount)
    faults.value(path, amount.error().message);
  else if (*amount < Money())
    faults.value(path, "A limit is 0 USD or more.");
  else
    out.limit = *amount;
}

void read_thresholds(Faults& faults, const json::object& spec, budget::Spec& out) {
  const std::string path = "spec.thresholdsPercent";
  const auto* given = spec.if_contains("thresholdsPercent");
  if (given == nullptr || given->is_null()) return;
  if (!given->is_array()) return faults.add(path, "FieldTypeInvalid", "A list of whole numbers goes here.");
  out.thresholds.clear();
  for (const auto& item : given->get_array()) {
    if (!item.is_int64() || item.get_int64() < 1 || item.get_int64() > 100)
      return faults.value(path, "A threshold is a whole number, 1 to 100.");
    out.thresholds.push_back(static_cast<int>(item.get_int64()));
  }
  std::ranges::sort(out.thresholds);
  const auto repeated = std::ranges::unique(out.thresholds);
  out.thresholds.erase(repeated.begin(), repeated.end());
  if (out.thresholds.size() > budget::kMaxThresholds)
    faults.value(path, "A Budget has at most " + std::to_string(budget::kMaxThresholds) + " thresholds.");
}

void read_spec(Faults& faults, const json::object& object, budget::Spec& out) {
  const auto* spec = faults.object(object, "spec", "spec");
  if (spec == nullptr) {
    if (!object.contains("spec") || object.at("spec").is_null())
      faults.add("spec", "FieldValueRequired", "A Budget needs a spec with its limitUSD.");
    return;
  }
  faults.only(*spec, "spec.", {"limitUSD", "period", "thresholdsPercent"});
  read_limit(faults, *spec, out);
  read_thresholds(faults, *spec, out);
  const auto period = faults.text(*spec, "period", "spec.period");
  if (period.empty()) return;
  if (const auto known = budget::period_of(period))
    out.period = *known;
  else
    faults.value("spec.period", "A period is Monthly (calendar months, UTC) or Total.");
}

std::map<std::string, std::string> read_strings(Faults& faults, const json::object& metadata,
                                                std::string_view name) {
  std::map<std::string, std::string> out;
  const std::string path = "metadata." + std::string(name);
  const auto* given = faults.object(metadata, name, path);
  if (given == nullptr) return out;
  for (const auto& [key, value] : *given) {
    const std::string field = path + "." + std::string(key).substr(0, 128);
    if (!value.is_string()) {
      faults.add(field, "FieldTypeInvalid", "A string goes here.");
      continue;
    }
    auto fault = name == "labels" ? label_fault(key, value.get_string()) : annotation_fault(key);
    if (!fault.empty()) faults.value(field, std::move(fault));
    out.emplace(key, value.get_string());
  }
  return out;
}

size_t bytes_of(const budget::Metadata& metadata) {
  size_t bytes = 0;
  for (const auto* strings : {&metadata.labels, &metadata.annotations})
    for (const auto& [key, value] : *strings) bytes += key.size() + value.size();
  return bytes;
}

json::object to_json(const std::map<std::string, std::string>& strings) {
  json::object out;
  for (const auto& [key, value] : strings) out.emplace(key, value);
  return out;
}

void read_metadata(Faults& faults, const json::object& object, const ProjectId& project,
                   BudgetManifest& out) {
  const auto* metadata = faults.object(object, "metadata", "metadata");
  static const json::object none;
  const auto& meta = metadata ? *metadata : none;
  faults.only(meta, "metadata.",
              {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
               "annotations", "labels", "managedFields"});
  out.metadata = {read_strings(faults, meta, "labels"), read_strings(faults, meta, "annotations")};
  if (bytes_of(out.metadata) > budget::kMaxMetadataBytes)
    faults.value("metadata", "Labels and annotations of a Budget have at most " +
                                 std::to_string(budget::kMaxMetadataBytes) + " bytes together.");
  out.name = faults.text(meta, "name", "metadata.name");
  out.uid = faults.text(meta, "uid", "metadata.uid");
  out.resource_version = faults.text(meta, "resourceVersion", "metadata.resourceVersion");
  const auto space = faults.text(meta, "namespace", "metadata.namespace");
  if (!space.empty() && space != project_name(project))
    faults.value("metadata.namespace", "It is not the project of the path.");
  if (!is_dns_label(out.name))
    faults.value("metadata.name", "A name has 1 to 63 lower-case letters, digits and inner hyphens.");
}

std::string amount_text(Money amount) {
  std::string text = amount.to_decimal();
  const size_t least = text.find('.') + 3;
  while (text.size() > least && text.back() == '0') text.pop_back();
  return text;
}

json::object condition(const budget::Budget& budget) {
  json::object out{{"type", "Exhausted"},
                   {"status", budget.exhausted_s ? "True" : "False"},
                   {"reason", budget.exhausted_s ? "LimitReached" : "WithinLimit"}};
  out["message"] = budget.exhausted_s ? "Nothing starts in this project until the limit is raised" +
                                            std::string(budget.spec.period == budget::Period::kMonthly
                                                            ? " or the next month begins."
                                                            : ".")
                                      : "";
  if (budget.exhausted_s) out["lastTransitionTime"] = to_rfc3339(to_instant(*budget.exhausted_s));
  return out;
}

}  // namespace

std::string project_name(const ProjectId& project) {
  return project.str().substr(project.str().rfind('/') + 1);
}

Result<BudgetManifest> read_budget(const json::value& value, const ProjectId& project) {
  if (!value.is_object()) return fail(Code::kBadRequest, "BadRequest", "The body is not a JSON object.");
  const auto& object = value.get_object();
  Faults faults("The Budget has faults.", "There is no such field in a Budget.");
  BudgetManifest out;
  faults.only(object, "", {"apiVersion", "kind", "metadata", "spec", "status"});
  const auto version = faults.text(object, "apiVersion", "apiVersion");
  if (!version.empty() && version != "nodus.dev/v1") faults.value("apiVersion", "It is nodus.dev/v1.");
  const auto kind = faults.text(object, "kind", "kind");
  if (!kind.empty() && kind != "Budget") faults.value("kind", "It is Budget.");
  read_metadata(faults, object, project, out);
  read_spec(faults, object, out.spec);
  if (!faults.error().causes.empty()) return std::unexpected(std::move(faults.error()));
  return out;
}

json::object to_json(const budget::State& state, const budget::Budget& budget, Instant now, int64_t version) {
  const auto now_s = to_money_second(now);
  const auto end = budget::ends_at(state, budget);
  const bool monthly = budget.spec.period == budget::Period::kMonthly;
  const Money spent = budget::spent(state, budget, end ? std::min(*end, now_s) : now_s);
  json::array thresholds;
  for (const int percent : budget.spec.thresholds) thresholds.emplace_back(percent);
  json::object status{{"spentUSD", spent.to_decimal()},
                      {"heldUSD", budget::held(state).to_decimal()},
                      {"remainingUSD", std::max(budget.spec.limit - spent, Money()).to_decimal()},
                      {"thresholdReachedPercent", budget.reached}};
  if (budget.exhausted_s) status["exhaustedAt"] = to_rfc3339(to_instant(*budget.exhausted_s));
  if (monthly) status["resetsAt"] = to_rfc3339(to_instant(budget::next_month(now_s)));
  status["conditions"] = json::array{condition(budget)};
  json::object metadata{{"name", budget.name},
                        {"namespace", project_name(state.project)},
                        {"uid", budget.uid},
                        {"generation", budget.generation},
                        {"creationTimestamp", to_rfc3339(budget.created_at)}};
  if (!budget.metadata.labels.empty()) metadata["labels"] = to_json(budget.metadata.labels);
  if (!budget.metadata.annotations.empty()) metadata["annotations"] = to_json(budget.metadata.annotations);
  if (version > 0) metadata["resourceVersion"] = std::to_string(version);
  return {{"apiVersion", "nodus.dev/v1"},
          {"kind", "Budget"},
          {"metadata", std::move(metadata)},
          {"spec",
           {{"limitUSD", amount_text(budget.spec.limit)},
            {"period", budget::to_string(budget.spec.period)},
            {"thresholdsPercent", std::move(thresholds)}}},
          {"status", std::move(status)}};
}

}  // namespace nodus::metering
