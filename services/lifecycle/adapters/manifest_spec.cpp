// The table of spec 001, field by field.
#include "services/lifecycle/adapters/manifest_spec.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "libs/config/config.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr size_t kMaxVariables = 256;
constexpr size_t kMaxVariableName = 255;
constexpr size_t kMaxEnvBytes = 64 * 1024;

bool one_of_these(std::string_view text, std::string_view more) {
  return std::ranges::all_of(
      text, [&](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || more.contains(c); });
}

// [host[:port]/]path[:tag][@sha256:…], as container tools write it.
bool image_reference(std::string_view text) {
  if (text.empty() || text.size() > 255) return false;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    constexpr std::string_view kAlgorithm = "sha256:";
    const std::string_view digest = text.substr(at + 1);
    if (!digest.starts_with(kAlgorithm) || digest.size() != kAlgorithm.size() + 64 ||
        digest.substr(kAlgorithm.size()).find_first_not_of("0123456789abcdef") != std::string_view::npos)
      return false;
    text = text.substr(0, at);
  }
  const size_t last = text.rfind('/');
  const size_t colon = text.find(':', last == std::string_view::npos ? 0 : last);
  if (colon != std::string_view::npos) {
    const std::string_view tag = text.substr(colon + 1);
    if (tag.empty() || tag.size() > 128 || tag.front() == '.' || tag.front() == '-' ||
        !one_of_these(tag, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_.-"))
      return false;
    text = text.substr(0, colon);
  }
  const size_t host_end = text.find('/');
  for (size_t at = 0; at <= text.size();) {
    const size_t slash = std::min(text.find('/', at), text.size());
    const std::string_view part = text.substr(at, slash - at);
    const bool host = at == 0 && host_end != std::string_view::npos;  // may be localhost:5000
    const std::string_view edge = ".-_:";
    if (part.empty() || edge.contains(part.front()) || edge.contains(part.back()) ||
        !one_of_these(part, host ? ".-_:" : ".-_"))
      return false;
    at = slash + 1;
  }
  return true;
}

// A quantity is text, or, as in Kubernetes, a number: YAML's `cpu: 2` is one.
std::optional<std::string> quantity_text(Faults& faults, const json::object& in, std::string_view key,
                                         const std::string& path) {
  const auto* value = in.if_contains(key);
  if (!value || value->is_null()) return std::nullopt;
  if (const auto* text = value->if_string()) return std::string(*text);
  if (value->is_int64()) return fmt::to_string(value->get_int64());
  if (value->is_uint64()) return fmt::to_string(value->get_uint64());
  if (value->is_double()) return fmt::format("{}", value->get_double());
  faults.add(path, "FieldTypeInvalid", "This is a quantity, in quotes, or a number.");
  return std::nullopt;
}

// Reads one text field through `parse` and checks its range.
template <class Parse>
void ranged(Faults& faults, const json::object& in, std::string_view key, const std::string& parent,
            int64_t& out, Parse parse, int64_t min, int64_t max, std::string_view range) {
  const auto text = quantity_text(faults, in, key, path_of(parent, key));
  if (!text) return;
  const auto value = parse(std::string_view(*text));
  if (!value)
    faults.add(path_of(parent, key), "FieldValueInvalid", value.error().message);
  else if (*value < min || *value > max)
    faults.add(path_of(parent, key), "FieldValueInvalid",
               fmt::format("\"{}\" is out of range: {}.", text->substr(0, 64), range));
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
  if (!absent(*in, "gpu"))
    faults.add(path + ".gpu", "FieldValueForbidden",
               "GPU Sandboxes are not available yet; leave resources.gpu out.");
  faults.known(*in, path);
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
  faults.known(*in, path);
  const std::string idle_range = "0s (never idle) or " + range(times.idle_min, times.idle_max);
  int64_t idle_us = out.idle_timeout.count();
  for (const std::string_view key : {"idleTimeout", "maxLifetime"})
    if (const auto* value = in->if_contains(key); value && value->is_number()) {
      faults.add(path_of(path, key), "FieldTypeInvalid", "This is a duration with its unit, such as \"5m\".");
      return;
    }
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
  faults.known(*network, "spec.network");
  const auto* egress = faults.object(*network, "egress", "spec.network.egress");
  if (!egress) return;
  faults.known(*egress, "spec.network.egress");
  one_of(faults, *egress, "policy", "spec.network.egress", out.egress,
         {{"Deny", Egress::kDeny}, {"Open", Egress::kOpen}});
}

void read_working_dir(Faults& faults, const json::object& spec, SandboxSpec& out) {
  const auto* text = faults.text(spec, "workingDir", "spec.workingDir");
  if (!text) return;
  const std::string directory = plain_directory(*text);
  if (!valid_directory(directory))
    faults.add(
        "spec.workingDir", "FieldValueInvalid",
        "The working directory is an absolute path without \"..\", and not under /proc, /sys or /dev.");
  else
    out.working_dir = directory;
}

}  // namespace

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

namespace {

void read_env(Faults& faults, const json::object& spec, std::map<std::string, std::string>& out) {
  const auto* env = faults.object(spec, "env", "spec.env");
  if (!env) return;
  size_t bytes = 0;
  for (const auto& [key, value] : *env) {
    const std::string_view name(key);
    const std::string path = path_of("spec.env", name.substr(0, 128));
    if (name.empty() || name.size() > kMaxVariableName || name.contains('=') ||
        std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
      faults.add(
          path, "FieldValueInvalid",
          fmt::format("A variable's name has 1 to {} characters, none of them \"=\" or a control character.",
                      kMaxVariableName));
      continue;
    }
    // No message repeats a value: it may be a secret.
    if (!value.is_string() || std::string_view(value.get_string()).contains('\0')) {
      faults.add(path, "FieldTypeInvalid", "A variable's value is a string without NUL.");
      continue;
    }
    bytes += name.size() + value.get_string().size() + 2;
    out.emplace(name, value.get_string());
  }
  if (env->size() > kMaxVariables || bytes > kMaxEnvBytes)
    faults.add("spec.env", "FieldValueInvalid",
               fmt::format("At most {} variables and {} KiB in all.", kMaxVariables, kMaxEnvBytes / 1024));
}

void read_image(Faults& faults, const json::object& spec, std::string& out) {
  const auto* image = faults.text(spec, "image", "spec.image");
  if (image && !image_reference(*image))
    faults.add("spec.image", "FieldValueInvalid",
               "An image reference is such as nodus/agent-tools, registry.example:5000/team/image:tag or "
               "image@sha256:… with 64 hex digits.");
  else if (image)
    out = *image;
  else if (absent(spec, "image"))
    faults.add("spec.image", "FieldValueRequired", "Name an image, such as nodus/agent-tools.");
}

}  // namespace

void read_state(Faults& faults, const json::object& spec, bool& run) {
  one_of(faults, spec, "state", "spec", run, {{"Running", true}, {"Stopped", false}});
}

void read_spec(Faults& faults, const json::object& root, const SpecTimes& times, Manifest& out) {
  out.spec.idle_timeout = times.idle_default;
  out.spec.max_lifetime = times.lifetime_default;
  const auto* spec = faults.object(root, "spec", "spec");
  if (!spec) {
    if (absent(root, "spec"))
      faults.add("spec", "FieldValueRequired", "A Sandbox needs a spec with an image.");
    return;
  }
  faults.known(*spec, "spec");
  read_image(faults, *spec, out.spec.image);
  read_resources(faults, *spec, out.spec.shape);
  read_network(faults, *spec, out.spec);
  read_lifecycle(faults, *spec, times, out.spec);
  if (const auto* continuity = faults.object(*spec, "continuity", "spec.continuity")) {
    faults.known(*continuity, "spec.continuity");
    one_of(faults, *continuity, "mode", "spec.continuity", out.spec.continuity,
           {{"Snapshotted", Continuity::kSnapshotted}, {"Ephemeral", Continuity::kEphemeral}});
  }
  read_working_dir(faults, *spec, out.spec);
  read_max_cost(faults, *spec, out.spec.max_cost);
  read_env(faults, *spec, out.env);
  read_state(faults, *spec, out.run);
}

namespace {

void flatten(const json::value& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (const auto* object = value.if_object()) {
    for (const auto& [key, member] : *object) flatten(member, path_of(path, key), out);
  } else {
    out[path] = value.is_string() ? std::string(value.get_string()) : json::serialize(value);
  }
}

// At least two decimals, and no zeros after them: "1.00", "0.0042".
std::string amount_text(Money amount) {
  std::string text = amount.to_decimal();
  const size_t least = text.find('.') + 3;
  while (text.size() > least && text.back() == '0') text.pop_back();
  return text;
}

}  // namespace

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
  if (spec.max_cost) out["maxCostUSD"] = amount_text(*spec.max_cost);
  json::object env;
  for (const auto& [name, digest] : spec.env) env[name] = kHiddenValue;
  if (!env.empty()) out["env"] = std::move(env);
  return out;
}

std::vector<Difference> differences(const SandboxSpec& existing, const SandboxSpec& requested) {
  std::map<std::string, std::string> have;
  std::map<std::string, std::string> want;
  flatten(render_spec(existing, true), "spec", have);
  flatten(render_spec(requested, true), "spec", want);
  // Values of variables are told apart by their digests, and never shown.
  for (const auto& [name, digest] : requested.env)
    if (const auto it = existing.env.find(name); it != existing.env.end() && it->second != digest)
      want["spec.env." + name] = std::string(kHiddenValue) + " (another value)";
  std::vector<Difference> out;
  for (const auto& [field, value] : have)
    if (const auto it = want.find(field); it == want.end() || it->second != value)
      out.push_back({field, value, it == want.end() ? "" : it->second});
  for (const auto& [field, value] : want)
    if (!have.contains(field)) out.push_back({field, "", value});
  return out;
}

std::string plain_directory(std::string_view path) {
  std::string out;
  for (size_t at = 0; at <= path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, slash - at);
    if (at == 0 && slash != 0) out = part;  // not absolute: left for the check to refuse
    if (at != 0 && !part.empty() && part != ".") out += "/" + std::string(part);
    at = slash + 1;
  }
  return out.empty() && path.starts_with('/') ? "/" : out;
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

}  // namespace nodus::lifecycle
