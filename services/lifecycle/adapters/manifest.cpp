#include "services/lifecycle/adapters/manifest.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "libs/base/names.hpp"
#include "libs/config/config.hpp"
#include "libs/http/json_body.hpp"
#include "services/lifecycle/adapters/fields.hpp"
#include "services/lifecycle/adapters/manifest_spec.hpp"
#include "services/lifecycle/domain/project.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr size_t kMetadataEntries = 64;
constexpr size_t kMetadataBytes = 32 * 1024;

void read_strings(Faults& faults, const json::object& in, std::string_view key,
                  std::map<std::string, std::string>& out) {
  const std::string path = path_of("metadata", key);
  const auto* object = faults.object(in, key, path);
  if (!object) return;
  size_t bytes = 0;
  for (const auto& [name, value] : *object) {
    if (!value.is_string()) {
      faults.add(path_of(path, std::string_view(name).substr(0, 128)), "FieldTypeInvalid",
                 "This is a string.");
      continue;
    }
    bytes += name.size() + value.get_string().size();
    const auto fault = key == "labels" ? label_fault(name, value.get_string()) : annotation_fault(name);
    if (!fault.empty())
      faults.add(path_of(path, std::string_view(name).substr(0, 128)), "FieldValueInvalid", fault);
    out.emplace(name, value.get_string());
  }
  if (object->size() > kMetadataEntries || bytes > kMetadataBytes)
    faults.add(path, "FieldValueInvalid",
               fmt::format("At most {} entries and {} KiB in all.", kMetadataEntries, kMetadataBytes / 1024));
}

void read_metadata(Faults& faults, const json::object& root, const ProjectId& project, Manifest& out) {
  const auto* metadata = faults.object(root, "metadata", "metadata");
  if (!metadata) {
    if (absent(root, "metadata")) faults.add("metadata.name", "FieldValueRequired", "Name the Sandbox.");
    return;
  }
  // What the platform itself writes there is taken and ignored, so that what was read can be applied again.
  faults.known(*metadata, "metadata");
  if (const auto* name = faults.text(*metadata, "name", "metadata.name")) {
    if (is_dns_label(*name))
      out.name = *name;
    else
      faults.add("metadata.name", "FieldValueInvalid",
                 "A name has 1 to 63 lowercase letters, digits and hyphens, and begins and ends with a "
                 "letter or digit.");
  } else if (absent(*metadata, "name")) {
    faults.add("metadata.name", "FieldValueRequired", "Name the Sandbox.");
  }
  if (const auto* space = faults.text(*metadata, "namespace", "metadata.namespace");
      space && std::string_view(*space) != project_name(project))
    faults.add(
        "metadata.namespace", "FieldValueInvalid",
        "The namespace is the project of the request, \"" + project_name(project) + "\", or left out.");
  read_strings(faults, *metadata, "labels", out.labels);
  read_strings(faults, *metadata, "annotations", out.annotations);
}

void expect(Faults& faults, const json::object& root, std::string_view key, std::string_view value) {
  const auto* text = faults.text(root, key, std::string(key));
  if (text ? std::string_view(*text) != value : absent(root, key))
    faults.add(std::string(key), text ? "FieldValueNotSupported" : "FieldValueRequired",
               fmt::format("{} is \"{}\" here.", key, value));
}

}  // namespace

void Faults::add(std::string field, std::string reason, std::string message) {
  if (causes_.size() < 100) causes_.push_back({std::move(field), std::move(reason), std::move(message)});
}

Error Faults::error(const std::string& what) const {
  Error error{Code::kInvalid, "Invalid", what + " is invalid:", causes_, {}, {}};
  for (const auto& cause : causes_) error.message += " " + cause.field + ": " + cause.message;
  return error;
}

bool absent(const json::object& in, std::string_view key) {
  const auto* value = in.if_contains(key);
  return !value || value->is_null();
}

const json::string* Faults::text(const json::object& in, std::string_view key, const std::string& path) {
  const auto* value = in.if_contains(key);
  if (!value || value->is_null()) return nullptr;
  if (!value->is_string()) add(path, "FieldTypeInvalid", "This is a string, in quotes.");
  return value->if_string();
}

const json::object* Faults::object(const json::object& in, std::string_view key, const std::string& path) {
  const auto* value = in.if_contains(key);
  if (!value || value->is_null()) return nullptr;
  if (!value->is_object()) add(path, "FieldTypeInvalid", "This is an object.");
  return value->if_object();
}

void Faults::only(const json::object& in, const std::string& path,
                  std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : in)
    if (std::ranges::find(known, std::string_view(key)) == known.end())
      add(path_of(path, std::string_view(key).substr(0, 128)), "FieldUnknown", "There is no such field.");
}

void Faults::known(const json::object& in, const std::string& path) {
  for (const auto& [key, value] : in)
    if (!known_field(path, key))
      add(path_of(path, std::string_view(key).substr(0, 128)), "FieldUnknown", "There is no such field.");
}

Result<json::object> parse_object(std::string_view body) {
  return http::parse_json_object(body);
}

Result<Manifest> parse_manifest(std::string_view body, const ProjectId& project, const SpecTimes& times) {
  auto root = parse_object(body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  Manifest manifest;
  faults.known(*root, "");
  expect(faults, *root, "apiVersion", "nodus.dev/v1");
  expect(faults, *root, "kind", "Sandbox");
  read_metadata(faults, *root, project, manifest);
  read_spec(faults, *root, times, manifest);
  if (faults.any()) return std::unexpected(faults.error("The Sandbox"));
  return manifest;
}

}  // namespace nodus::lifecycle
