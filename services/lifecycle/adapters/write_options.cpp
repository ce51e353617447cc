#include "services/lifecycle/adapters/write_options.hpp"

#include <algorithm>
#include <charconv>

#include "services/lifecycle/adapters/manifest.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

std::string media_type(const http::Request& request) {
  std::string type = request.headers.get("Content-Type").value_or("");
  type.resize(std::min(type.size(), type.find(';')));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  std::ranges::transform(type, type.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return type;
}

std::unexpected<Error> invalid(std::string message) {
  return fail(Code::kInvalid, "Invalid", std::move(message));
}

Result<std::optional<int64_t>> version_of(const json::value& value) {
  const auto* text = value.if_string();
  int64_t number = 0;
  if (text) {
    const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (text->empty()) return std::nullopt;
    if (fault == std::errc() && end == text->data() + text->size()) return number;
  }
  return invalid("resourceVersion: a metadata.resourceVersion that this API has given out, unchanged.");
}

Result<Precondition> read_precondition(const json::object& in) {
  Precondition out;
  if (const auto* uid = in.if_contains("uid"); uid && !uid->is_null()) {
    if (!uid->is_string()) return invalid("uid: this is a string.");
    if (!uid->get_string().empty()) out.uid = std::string(uid->get_string());
  }
  if (const auto* version = in.if_contains("resourceVersion"); version && !version->is_null()) {
    auto number = version_of(*version);
    if (!number) return std::unexpected(std::move(number.error()));
    out.resource_version = *number;
  }
  return out;
}

Result<void> check_policy(std::string_view policy) {
  if (policy == "Orphan")
    return invalid("propagationPolicy: Processes and files go with their Sandbox; Orphan is not possible.");
  if (!policy.empty() && policy != "Background" && policy != "Foreground")
    return invalid("propagationPolicy: Background or Foreground.");
  return {};
}

Result<void> read_body(const json::object& body, DeleteOptions& out) {
  Faults faults;
  faults.only(body, "",
              {"kind", "apiVersion", "gracePeriodSeconds", "orphanDependents", "preconditions",
               "propagationPolicy", "dryRun", "ignoreStoreReadErrorWithClusterBreakingPotential"});
  if (const auto* policy = faults.text(body, "propagationPolicy", "propagationPolicy"))
    if (auto checked = check_policy(*policy); !checked) return checked;
  if (const auto* wanted = faults.object(body, "preconditions", "preconditions")) {
    auto precondition = read_precondition(*wanted);
    if (!precondition) return std::unexpected(std::move(precondition.error()));
    out.precondition = std::move(*precondition);
  }
  if (const auto* dry = body.if_contains("dryRun"); dry && !dry->is_null()) {
    if (!dry->is_array() ||
        !std::ranges::all_of(dry->get_array(), [](const json::value& one) { return one == "All"; }))
      faults.add("dryRun", "FieldValueNotSupported", "A list with \"All\", or nothing.");
    else
      out.dry_run |= !dry->get_array().empty();
  }
  if (faults.any()) return std::unexpected(faults.error("The DeleteOptions"));
  return {};
}

}  // namespace

Result<bool> dry_run_of(const http::Request& request) {
  bool dry = false;
  const auto [begin, end] = request.query.equal_range("dryRun");
  for (auto it = begin; it != end; ++it) {
    if (it->second == "All")
      dry = true;
    else if (!it->second.empty())
      return invalid("dryRun: All, or leave it out.");
  }
  return dry;
}

Result<void> takes_json(const http::Request& request) {
  const auto type = media_type(request);
  if (type.empty() || type == "application/json") return {};
  return fail(Code::kBadRequest, "UnsupportedMediaType",
              "This request takes JSON: send it with Content-Type: application/json.");
}

Result<void> takes_merge_patch(const http::Request& request) {
  if (media_type(request) == "application/merge-patch+json") return {};
  return fail(Code::kBadRequest, "UnsupportedMediaType",
              "PATCH takes a merge patch: send the fields to change, such as "
              "{\"spec\":{\"state\":\"Stopped\"}}, with "
              "Content-Type: application/merge-patch+json.");
}

Result<Precondition> precondition_of(const json::object& object) {
  const auto* metadata = object.if_contains("metadata");
  if (!metadata || !metadata->is_object()) return Precondition{};
  return read_precondition(metadata->get_object());
}

Result<void> check(const Precondition& precondition, const SandboxView& view) {
  if (precondition.uid && *precondition.uid != view.sandbox.uid.str())
    return fail(Code::kConflict, "Conflict",
                "Sandbox \"" + view.sandbox.name + "\" is another one than you name: its uid is " +
                    view.sandbox.uid.str() + ". Read it again.");
  if (precondition.resource_version && *precondition.resource_version != view.resource_version)
    return fail(
        Code::kConflict, "Conflict",
        "The Sandbox was changed since you read it. Read it again, and send your change to what it is now.");
  return {};
}

Result<DeleteOptions> delete_options(const http::Request& request) {
  DeleteOptions out;
  auto dry = dry_run_of(request);
  if (!dry) return std::unexpected(std::move(dry.error()));
  out.dry_run = *dry;
  if (auto checked = check_policy(request.query_value("propagationPolicy").value_or("")); !checked)
    return std::unexpected(std::move(checked.error()));
  if (request.body.find_first_not_of(" \t\r\n") == std::string::npos) return out;
  if (auto media = takes_json(request); !media) return std::unexpected(std::move(media.error()));
  auto body = parse_object(request.body);
  if (!body) return std::unexpected(std::move(body.error()));
  if (auto read = read_body(*body, out); !read) return std::unexpected(std::move(read.error()));
  return out;
}

void merge(json::value& target, const json::value& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target = json::object();
  auto& into = target.get_object();
  for (const auto& [key, value] : patch.get_object()) {
    if (value.is_null())
      into.erase(key);
    else
      merge(into[key], value);
  }
}

}  // namespace nodus::lifecycle
