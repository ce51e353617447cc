#include "services/lifecycle/adapters/manifest.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "libs/config/config.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr size_t kMetadataEntries = 64;
constexpr size_t kMetadataBytes = 32 * 1024;

bool dns_label(std::string_view text) {
  if (text.empty() || text.size() > 63 || text.front() == '-' || text.back() == '-') return false;
  return std::ranges::all_of(
      text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

bool image_reference(std::string_view text) {
  if (text.empty() || text.size() > 255) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-/:@").contains(c);
  });
}

std::string path_of(const std::string& parent, std::string_view key) {
  return parent.empty() ? std::string(key) : parent + "." + std::string(key);
}

// Reads one text field through `parse` and checks its range.
template <class Parse>
void ranged(Faults& faults, const json::object& in, std::string_view key, const std::string& parent,
            int64_t& out, Parse parse, int64_t min, int64_t max, std::string_view range) {
  const auto* text = faults.text(in, key, path_of(parent, key));
  if (!text) return;
  const auto value = parse(std::string_view(*text));
  if (!value)
    faults.add(path_of(parent, key), "FieldValueInvalid", value.error().message);
  else if (*value < min || *value > max)
    faults.add(path_of(parent, key), "FieldValueInvalid",
               fmt::format("\"{}\" is out of range: {}.", std::string_view(*text).substr(0, 64), range));
  else
    out = *value;
}

template <class E>
void one_of(Faults& faults, const json::object& in, std::string_view key, const std::string& parent, E& out,
            std::initializer_list<std::pair<std::string_view, E>> values) {
  const auto* text = faults.text(in, key, path_of(parent, key));
  if (!text) return;
  std::string supported;
  for (const auto& [name, value] : values) {
    if (std::string_view(*text) == name) {
      out = value;
      return;
    }
    supported += (supported.empty() ? "" : ", ") + std::string(name);
  }
  faults.add(path_of(parent, key), "FieldValueNotSupported",
             fmt::format("\"{}\" is not supported; supported values: {}.",
                         std::string_view(*text).substr(0, 64), supported));
}

Result<int64_t> duration_us(std::string_view text) {
  const auto duration = config::parse_duration(text);
  if (!duration) return std::unexpected(duration.error());
  return static_cast<int64_t>(duration->count());
}

void read_resources(Faults& faults, const json::object& spec, Shape& shape) {
  const auto* in = faults.object(spec, "resources", "spec.resources");
  if (!in) return;
  const std::string path = "spec.resources";
  if (in->contains("gpu"))
    faults.add(path + ".gpu", "FieldValueForbidden",
               "GPU Sandboxes are not available yet; leave resources.gpu out.");
  faults.only(*in, path, {"cpu", "memory", "disk", "gpu"});
  constexpr int64_t kMi = 1 << 20;
  constexpr int64_t kGi = 1 << 30;
  ranged(faults, *in, "cpu", path, shape.cpu_milli, config::parse_cpu_milli, 250, 64'000, "0.25 to 64 vCPU");
  ranged(faults, *in, "memory", path, shape.memory_bytes, config::parse_bytes, 128 * kMi, 256 * kGi,
         "128Mi to 256Gi");
  ranged(faults, *in, "disk", path, shape.disk_bytes, config::parse_bytes, kGi, 200 * kGi, "1Gi to 200Gi");
}

void read_lifecycle(Faults& faults, const json::object& spec, const SpecTimes& times, SandboxSpec& out) {
  const auto* in = faults.object(spec, "lifecycle", "spec.lifecycle");
  if (!in) return;
  const std::string path = "spec.lifecycle";
  const auto range = [](Micros min, Micros max) {
    return config::format_duration(min) + " to " + config::format_duration(max);
  };
  faults.only(*in, path, {"idleTimeout", "onIdle", "maxLifetime"});
  const std::string idle_range = "0s (never idle) or " + range(times.idle_min, times.idle_max);
  int64_t idle_us = out.idle_timeout.count();
  ranged(faults, *in, "idleTimeout", path, idle_us, duration_us, 0, times.idle_max.count(), idle_range);
  if (idle_us != 0 && Micros(idle_us) < times.idle_min)
    faults.add(path + ".idleTimeout", "FieldValueInvalid", "The idle timeout is " + idle_range + ".");
  out.idle_timeout = Micros(idle_us);
  one_of(faults, *in, "onIdle", path, out.on_idle, {{"Stop", OnIdle::kStop}, {"Delete", OnIdle::kDelete}});
  int64_t lifetime_us = out.max_lifetime.count();
  ranged(faults, *in, "maxLifetime", path, lifetime_us, duration_us, times.lifetime_min.count(),
         times.lifetime_max.count(), range(times.lifetime_min, times.lifetime_max));
  out.max_lifetime = Micros(lifetime_us);
}

void read_network(Faults& faults, const json::object& spec, SandboxSpec& out) {
  const auto* network = faults.object(spec, "network", "spec.network");
  if (!network) return;
  faults.only(*network, "spec.network", {"egress"});
  const auto* egress = faults.object(*network, "egress", "spec.network.egress");
  if (!egress) return;
  faults.only(*egress, "spec.network.egress", {"policy"});
  one_of(faults, *egress, "policy", "spec.network.egress", out.egress,
         {{"Deny", Egress::kDeny}, {"Open", Egress::kOpen}});
}

void read_working_dir(Faults& faults, const json::object& spec, SandboxSpec& out) {
  const auto* text = faults.text(spec, "workingDir", "spec.workingDir");
  if (!text) return;
  if (!valid_directory(*text))
    faults.add(
        "spec.workingDir", "FieldValueInvalid",
        "The working directory is an absolute path without \"..\", and not under /proc, /sys or /dev.");
  else
    out.working_dir = *text;
}

void read_max_cost(Faults& faults, const json::object& spec, std::optional<Money>& out) {
  const auto* text = faults.text(spec, "maxCostUSD", "spec.maxCostUSD");
  if (!text) return;
  const auto amount = Money::parse(std::string_view(*text));
  if (!amount)
    faults.add("spec.maxCostUSD", "FieldValueInvalid", amount.error().message);
  else if (*amount <= Money())
    faults.add("spec.maxCostUSD", "FieldValueInvalid", "A cap is more than 0 USD; leave it out for none.");
  else
    out = *amount;
}

void read_state(Faults& faults, const json::object& spec, bool& run) {
  one_of(faults, spec, "state", "spec", run, {{"Running", true}, {"Stopped", false}});
}

void read_spec(Faults& faults, const json::object& root, const SpecTimes& times, Manifest& out) {
  out.spec.idle_timeout = times.idle_default;
  out.spec.max_lifetime = times.lifetime_default;
  const auto* spec = faults.object(root, "spec", "spec");
  if (!spec) {
    if (!root.contains("spec"))
      faults.add("spec", "FieldValueRequired", "A Sandbox needs a spec with an image.");
    return;
  }
  faults.only(
      *spec, "spec",
      {"image", "resources", "network", "lifecycle", "continuity", "workingDir", "maxCostUSD", "state"});
  if (const auto* image = faults.text(*spec, "image", "spec.image")) {
    if (image_reference(*image))
      out.spec.image = *image;
    else
      faults.add("spec.image", "FieldValueInvalid", "An image reference is such as nodus/agent-tools.");
  } else if (!spec->contains("image")) {
    faults.add("spec.image", "FieldValueRequired", "Name an image, such as nodus/agent-tools.");
  }
  read_resources(faults, *spec, out.spec.shape);
  read_network(faults, *spec, out.spec);
  read_lifecycle(faults, *spec, times, out.spec);
  if (const auto* continuity = faults.object(*spec, "continuity", "spec.continuity")) {
    faults.only(*continuity, "spec.continuity", {"mode"});
    one_of(faults, *continuity, "mode", "spec.continuity", out.spec.continuity,
           {{"Snapshotted", Continuity::kSnapshotted}, {"Ephemeral", Continuity::kEphemeral}});
  }
  read_working_dir(faults, *spec, out.spec);
  read_max_cost(faults, *spec, out.spec.max_cost);
  read_state(faults, *spec, out.run);
}

void read_strings(Faults& faults, const json::object& in, std::string_view key,
                  std::map<std::string, std::string>& out) {
  const std::string path = path_of("metadata", key);
  const auto* object = faults.object(in, key, path);
  if (!object) return;
  size_t bytes = 0;
  for (const auto& [name, value] : *object) {
    if (!value.is_string()) {
      faults.add(path_of(path, name), "FieldTypeInvalid", "This is a string.");
      continue;
    }
    bytes += name.size() + value.get_string().size();
    out.emplace(name, value.get_string());
  }
  if (object->size() > kMetadataEntries || bytes > kMetadataBytes)
    faults.add(path, "FieldValueInvalid",
               fmt::format("At most {} entries and {} KiB in all.", kMetadataEntries, kMetadataBytes / 1024));
}

void read_metadata(Faults& faults, const json::object& root, const ProjectId& project, Manifest& out) {
  const auto* metadata = faults.object(root, "metadata", "metadata");
  if (!metadata) {
    if (!root.contains("metadata")) faults.add("metadata.name", "FieldValueRequired", "Name the Sandbox.");
    return;
  }
  faults.only(*metadata, "metadata", {"name", "namespace", "labels", "annotations"});
  if (const auto* name = faults.text(*metadata, "name", "metadata.name")) {
    if (dns_label(*name))
      out.name = *name;
    else
      faults.add("metadata.name", "FieldValueInvalid",
                 "A name has 1 to 63 lowercase letters, digits and hyphens, and begins and ends with a "
                 "letter or digit.");
  } else if (!metadata->contains("name")) {
    faults.add("metadata.name", "FieldValueRequired", "Name the Sandbox.");
  }
  if (const auto* space = faults.text(*metadata, "namespace", "metadata.namespace");
      space && std::string_view(*space) != project.str())
    faults.add("metadata.namespace", "FieldValueInvalid",
               "The namespace is the project of the request, \"" + project.str() + "\", or left out.");
  read_strings(faults, *metadata, "labels", out.labels);
  read_strings(faults, *metadata, "annotations", out.annotations);
}

void expect(Faults& faults, const json::object& root, std::string_view key, std::string_view value) {
  const auto* text = faults.text(root, key, std::string(key));
  if (text ? std::string_view(*text) != value : !root.contains(key))
    faults.add(std::string(key), text ? "FieldValueNotSupported" : "FieldValueRequired",
               fmt::format("{} is \"{}\" here.", key, value));
}

void flatten(const json::value& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (const auto* object = value.if_object()) {
    for (const auto& [key, member] : *object) flatten(member, path_of(path, key), out);
  } else {
    out[path] = value.is_string() ? std::string(value.get_string()) : json::serialize(value);
  }
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

const json::string* Faults::text(const json::object& in, std::string_view key, const std::string& path) {
  const auto* value = in.if_contains(key);
  if (!value) return nullptr;
  if (!value->is_string()) add(path, "FieldTypeInvalid", "This is a string, in quotes.");
  return value->if_string();
}

const json::object* Faults::object(const json::object& in, std::string_view key, const std::string& path) {
  const auto* value = in.if_contains(key);
  if (!value) return nullptr;
  if (!value->is_object()) add(path, "FieldTypeInvalid", "This is an object.");
  return value->if_object();
}

void Faults::only(const json::object& in, const std::string& path,
                  std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : in)
    if (std::ranges::find(known, std::string_view(key)) == known.end())
      add(path_of(path, std::string_view(key).substr(0, 128)), "FieldUnknown", "There is no such field.");
}

bool valid_directory(std::string_view path) {
  const auto below = [&](std::string_view top) {
    return path == top || path.starts_with(std::string(top) + "/");
  };
  const std::string padded = std::string(path) + "/";
  return path.starts_with('/') && path.size() <= 4096 && !path.contains('\0') && !padded.contains("/../") &&
         !padded.contains("/./") && (path == "/" || !padded.contains("//")) && !below("/proc") &&
         !below("/sys") && !below("/dev");
}

Result<json::object> parse_object(std::string_view body) {
  boost::system::error_code error;
  auto value = json::parse(body, error);
  if (error) return fail(Code::kBadRequest, "BadRequest", "The body is not JSON: " + error.message() + ".");
  if (!value.is_object()) return fail(Code::kBadRequest, "BadRequest", "The body is not a JSON object.");
  return std::move(value.get_object());
}

Result<Manifest> parse_manifest(std::string_view body, const ProjectId& project, const SpecTimes& times) {
  auto root = parse_object(body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  Manifest manifest;
  faults.only(*root, "", {"apiVersion", "kind", "metadata", "spec"});
  expect(faults, *root, "apiVersion", "nodus.dev/v1");
  expect(faults, *root, "kind", "Sandbox");
  read_metadata(faults, *root, project, manifest);
  read_spec(faults, *root, times, manifest);
  if (faults.any()) return std::unexpected(faults.error("The Sandbox"));
  return manifest;
}

Result<Patch> parse_patch(std::string_view body) {
  auto root = parse_object(body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  Patch patch;
  faults.only(*root, "", {"apiVersion", "kind", "metadata", "spec"});
  if (root->contains("apiVersion")) expect(faults, *root, "apiVersion", "nodus.dev/v1");
  if (root->contains("kind")) expect(faults, *root, "kind", "Sandbox");
  if (const auto* spec = faults.object(*root, "spec", "spec")) {
    for (const auto& [key, value] : *spec)
      if (key != "state" && key != "maxCostUSD")
        faults.add(path_of("spec", std::string_view(key).substr(0, 128)), "FieldImmutable",
                   "Only spec.state and spec.maxCostUSD can change. Delete the Sandbox and create it again.");
    if (spec->contains("state")) {
      bool run = true;
      read_state(faults, *spec, run);
      patch.run = run;
    }
    read_max_cost(faults, *spec, patch.max_cost);
  }
  if (root->contains("metadata") && !root->at("metadata").is_object())
    faults.add("metadata", "FieldTypeInvalid", "This is an object.");
  else if (root->contains("metadata") && !root->at("metadata").get_object().empty())
    faults.add("metadata", "FieldImmutable", "Metadata cannot change after creation.");
  if (faults.any()) return std::unexpected(faults.error("The patch"));
  return patch;
}

json::object render_spec(const SandboxSpec& spec, bool run) {
  json::object out{
      {"image", spec.image},
      {"resources",
       {{"cpu", config::format_cpu(spec.shape.cpu_milli)},
        {"memory", config::format_bytes(spec.shape.memory_bytes)},
        {"disk", config::format_bytes(spec.shape.disk_bytes)}}},
      {"network", {{"egress", {{"policy", spec.egress == Egress::kOpen ? "Open" : "Deny"}}}}},
      {"lifecycle",
       {{"idleTimeout", config::format_duration(spec.idle_timeout)},
        {"onIdle", spec.on_idle == OnIdle::kDelete ? "Delete" : "Stop"},
        {"maxLifetime", config::format_duration(spec.max_lifetime)}}},
      {"continuity", {{"mode", spec.continuity == Continuity::kEphemeral ? "Ephemeral" : "Snapshotted"}}},
      {"workingDir", spec.working_dir},
      {"state", run ? "Running" : "Stopped"},
  };
  if (spec.max_cost) out["maxCostUSD"] = spec.max_cost->to_decimal();
  return out;
}

std::vector<Difference> differences(const SandboxSpec& existing, const SandboxSpec& requested) {
  std::map<std::string, std::string> have;
  std::map<std::string, std::string> want;
  flatten(render_spec(existing, true), "spec", have);
  flatten(render_spec(requested, true), "spec", want);
  std::vector<Difference> out;
  for (const auto& [field, value] : have)
    if (const auto it = want.find(field); it == want.end() || it->second != value)
      out.push_back({field, value, it == want.end() ? "" : it->second});
  for (const auto& [field, value] : want)
    if (!have.contains(field)) out.push_back({field, "", value});
  return out;
}

}  // namespace nodus::lifecycle
