#include "cli/manifest.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace nodus::cli {

namespace json = boost::json;

namespace {

constexpr size_t kMaxBytes = 1024 * 1024;
constexpr size_t kMaxNodes = 20'000;  // aliases can multiply
constexpr size_t kMaxDepth = 60;

struct Fault {
  std::string message;
  YAML::Mark mark;
};

// YAML's core schema for what is not quoted.
json::value scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!" || node.Tag().ends_with(":str")) return json::value(text);
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  if (const auto got = std::from_chars(text.data(), end, integer); got.ec == std::errc() && got.ptr == end)
    return integer;
  const bool numeric = std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
  });
  double number = 0;
  if (const auto got = std::from_chars(text.data(), end, number);
      numeric && got.ec == std::errc() && got.ptr == end)
    return number;
  return json::value(text);
}

json::value convert(const YAML::Node& node, size_t depth, size_t& nodes) {
  if (depth > kMaxDepth || ++nodes > kMaxNodes)
    throw Fault{"it is nested too deeply, or too large", node.Mark()};
  if (node.IsScalar()) return scalar(node);
  if (node.IsSequence()) {
    json::array array;
    for (const auto& item : node) array.push_back(convert(item, depth + 1, nodes));
    return array;
  }
  if (!node.IsMap()) return nullptr;
  json::object object;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) throw Fault{"a key is not a text", entry.first.Mark()};
    const std::string& key = entry.first.Scalar();
    if (object.contains(key)) throw Fault{fmt::format("\"{}\" is given twice", key), entry.first.Mark()};
    object[key] = convert(entry.second, depth + 1, nodes);
  }
  return object;
}

std::unexpected<Error> fault(const std::string& where, const std::string& message, const YAML::Mark& mark) {
  return fail(Code::kInvalid, "LocalFault",
              fmt::format("{}, line {}, column {}: {}.", where, mark.line + 1, mark.column + 1, message));
}

}  // namespace

Result<std::vector<json::object>> read_manifests(std::string_view yaml, const std::string& where) {
  if (yaml.size() > kMaxBytes) return fail(Code::kInvalid, "LocalFault", where + " is larger than 1 MiB.");
  std::vector<json::object> manifests;
  try {
    for (const YAML::Node& document : YAML::LoadAll(std::string(yaml))) {
      if (document.IsNull()) continue;
      if (!document.IsMap())
        return fault(where, "a manifest is a mapping with apiVersion, kind, metadata and spec",
                     document.Mark());
      size_t nodes = 0;
      manifests.push_back(convert(document, 0, nodes).as_object());
    }
  } catch (const Fault& found) {
    return fault(where, found.message, found.mark);
  } catch (const YAML::Exception& e) {
    return fault(where, e.msg, e.mark);
  }
  if (manifests.empty()) return fail(Code::kInvalid, "LocalFault", where + " holds no manifest.");
  return manifests;
}

void fill_in_image(json::object& manifest) {
  const json::value* kind = manifest.if_contains("kind");
  if (!kind || *kind != "Sandbox") return;
  json::value& spec = manifest["spec"];
  if (spec.is_null()) spec = json::object();
  if (spec.is_object() && !spec.get_object().contains("image")) spec.get_object()["image"] = kDefaultImage;
}

Result<json::object> pairs_of(const std::vector<std::string>& texts, const std::string& flag) {
  json::object out;
  for (const std::string& pair : texts) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos)
      return fail(Code::kInvalid, "LocalFault", fmt::format("{} \"{}\" is not NAME=VALUE.", flag, pair));
    out[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return out;
}

bool any_given(const CreateFlags& flags) {
  CreateFlags bare;
  bare.name = flags.name;
  return flags != bare;
}

Result<json::object> manifest_from(const CreateFlags& flags) {
  auto env = pairs_of(flags.env, "--env");
  auto labels = pairs_of(flags.labels, "--label");
  auto annotations = pairs_of(flags.annotations, "--annotation");
  for (const auto* pairs : {&env, &labels, &annotations})
    if (!*pairs) return std::unexpected(pairs->error());
  json::object spec{{"image", flags.image.empty() ? std::string(kDefaultImage) : flags.image}};
  const auto set = [](json::object& object, std::string_view key, const std::string& value) {
    if (!value.empty()) object[key] = value;
  };
  const auto add = [&](std::string_view key, json::object part) {
    if (!part.empty()) spec[key] = std::move(part);
  };
  json::object resources, lifecycle;
  set(resources, "cpu", flags.cpu);
  set(resources, "memory", flags.memory);
  set(resources, "disk", flags.disk);
  add("resources", std::move(resources));
  if (!flags.egress.empty()) spec["network"] = {{"egress", {{"policy", flags.egress}}}};
  set(lifecycle, "idleTimeout", flags.idle_timeout);
  set(lifecycle, "onIdle", flags.on_idle);
  set(lifecycle, "maxLifetime", flags.max_lifetime);
  add("lifecycle", std::move(lifecycle));
  if (!flags.continuity.empty()) spec["continuity"] = {{"mode", flags.continuity}};
  set(spec, "workingDir", flags.workdir);
  set(spec, "maxCostUSD", flags.max_cost);
  set(spec, "state", flags.state);
  add("env", std::move(*env));
  json::object metadata{{"name", flags.name}};
  if (!labels->empty()) metadata["labels"] = std::move(*labels);
  if (!annotations->empty()) metadata["annotations"] = std::move(*annotations);
  return json::object{{"apiVersion", "nodus.dev/v1"},
                      {"kind", "Sandbox"},
                      {"metadata", std::move(metadata)},
                      {"spec", std::move(spec)}};
}

}  // namespace nodus::cli
