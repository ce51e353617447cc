#include "libs/config/config.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace nodus::config {

namespace {

constexpr size_t kMaxFileBytes = 1024 * 1024;

std::unexpected<Error> bad_document(std::string message) {
  return fail(Code::kInvalid, "ConfigurationInvalid", std::move(message));
}

}  // namespace

class Document {
 public:
  explicit Document(YAML::Node root) : root_(std::move(root)) {}
  const YAML::Node& root() const { return root_; }

 private:
  YAML::Node root_;
};

Result<std::shared_ptr<const Document>> load_text(std::string_view yaml) {
  if (yaml.size() > kMaxFileBytes) return bad_document("The configuration is larger than 1 MiB.");
  try {
    YAML::Node root = YAML::Load(std::string(yaml));
    if (root.IsNull()) root = YAML::Node(YAML::NodeType::Map);
    if (!root.IsMap()) return bad_document("The configuration is not a YAML mapping.");
    return std::make_shared<const Document>(std::move(root));
  } catch (const YAML::Exception& e) {
    return bad_document(fmt::format("The configuration is not YAML: {} (line {}, column {}).", e.msg,
                                    e.mark.line + 1, e.mark.column + 1));
  }
}

Result<std::shared_ptr<const Document>> load_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return bad_document(fmt::format("The configuration file \"{}\" cannot be read, or is empty.", path));
  auto document = load_text(text.str());
  if (!document) document.error().message = fmt::format("{}: {}", path, document.error().message);
  return document;
}

struct Reader::State {
  std::shared_ptr<const Document> document;
  std::vector<Cause> faults;
  std::set<std::string> declared;
  std::map<std::string, std::vector<std::string>> effective;  // one text, or a list's
  std::set<std::string> lists;
  std::vector<std::string> secrets;

  void fault(std::string_view path, std::string reason, std::string message) {
    faults.push_back({std::string(path), std::move(reason), std::move(message)});
  }

  // The node at a dotted path; nothing when it, or a part of the way, is absent.
  std::optional<YAML::Node> find(std::string_view path) {
    declared.emplace(path);
    YAML::Node at = document->root();
    while (!path.empty()) {
      if (!at.IsMap()) return std::nullopt;
      const size_t dot = path.find('.');
      const YAML::Node& here = at;
      const YAML::Node next = here[std::string(path.substr(0, dot))];
      if (!next.IsDefined()) return std::nullopt;
      at.reset(next);
      path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
    }
    return at;
  }

  // The text at a path or its default; nothing after a fault.
  std::optional<std::string> scalar(std::string_view path, std::optional<std::string> fallback) {
    const auto node = find(path);
    std::optional<std::string> value;
    if (!node) {
      value = std::move(fallback);
      if (!value) fault(path, "Required", "is required.");
    } else if (node->IsScalar()) {
      value = node->Scalar();
    } else {
      fault(path, "FieldValueInvalid",
            node->IsNull() ? "is empty." : "must be one value, not a list or a mapping.");
    }
    if (value) effective[std::string(path)] = {*value};
    return value;
  }

  template <class T>
  T parsed(std::string_view path, const std::optional<std::string>& text,
           Result<T> (*parse)(std::string_view)) {
    if (!text) return T{};
    Result<T> value = parse(*text);
    if (value) return *value;
    fault(path, value.error().reason, value.error().message);
    return T{};
  }

  void find_unknown(const YAML::Node& node, const std::string& prefix) {
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "(not a name)";
      const std::string path = prefix.empty() ? key : prefix + "." + key;
      if (!seen.insert(key).second) fault(path, "Duplicate", "is given twice.");
      if (declared.contains(path)) continue;
      const auto below = declared.lower_bound(path + ".");
      const bool is_parent = below != declared.end() && below->starts_with(path + ".");
      if (!is_parent) {
        fault(path, "UnknownField", "is not a setting of this program.");
      } else if (entry.second.IsMap()) {
        find_unknown(entry.second, path);
      } else if (!entry.second.IsNull()) {
        fault(path, "FieldValueInvalid", "must be a mapping.");
      }
    }
  }
};

Reader::Reader(std::shared_ptr<const Document> document) : state_(std::make_unique<State>()) {
  state_->document = std::move(document);
}
Reader::~Reader() = default;

std::string Reader::text(std::string_view path, std::optional<std::string> fallback) {
  return state_->scalar(path, std::move(fallback)).value_or("");
}

std::string Reader::choice(std::string_view path, const std::vector<std::string>& allowed,
                           std::optional<std::string> fallback) {
  const auto value = state_->scalar(path, std::move(fallback));
  if (value && std::ranges::find(allowed, *value) == allowed.end())
    state_->fault(path, "FieldValueInvalid",
                  fmt::format("\"{}\" is not one of {}.", value->substr(0, 80), fmt::join(allowed, ", ")));
  return value.value_or("");
}

int64_t Reader::integer(std::string_view path, std::optional<int64_t> fallback, int64_t min, int64_t max) {
  const auto text = state_->scalar(path, fallback ? std::optional(fmt::to_string(*fallback)) : std::nullopt);
  if (!text) return min;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc() && end == text->data() + text->size() && value >= min && value <= max)
    return value;
  state_->fault(path, "FieldValueInvalid",
                fmt::format("\"{}\" is not a whole number from {} to {}.", *text, min, max));
  return min;
}

bool Reader::boolean(std::string_view path, std::optional<bool> fallback) {
  const auto text = state_->scalar(
      path, fallback ? std::optional<std::string>(*fallback ? "true" : "false") : std::nullopt);
  if (text && *text != "true" && *text != "false")
    state_->fault(path, "FieldValueInvalid", fmt::format("\"{}\" is neither true nor false.", *text));
  return text == "true";
}

Micros Reader::duration(std::string_view path, std::optional<Micros> fallback) {
  const auto text = state_->scalar(path, fallback ? std::optional(format_duration(*fallback)) : std::nullopt);
  return state_->parsed<Micros>(path, text, parse_duration);
}

int64_t Reader::quantity(std::string_view path, std::optional<std::string> fallback) {
  return state_->parsed<int64_t>(path, state_->scalar(path, std::move(fallback)), parse_bytes);
}

std::vector<std::string> Reader::texts(std::string_view path, std::vector<std::string> fallback) {
  const auto node = state_->find(path);
  std::vector<std::string> values = std::move(fallback);
  if (node) {
    values.clear();
    bool right = node->IsSequence();
    if (right)
      for (const auto& item : *node) {
        right = right && item.IsScalar();
        if (item.IsScalar()) values.push_back(item.Scalar());
      }
    if (!right) state_->fault(path, "FieldValueInvalid", "must be a list of texts.");
  }
  state_->effective[std::string(path)] = values;
  state_->lists.emplace(path);
  return values;
}

std::string Reader::secret(std::string_view environment_variable) {
  const std::string name(environment_variable);
  state_->secrets.push_back(name);
  const char* value = std::getenv(name.c_str());
  if (value && *value) return value;
  state_->fault(name, "Required", "must be set in the environment.");
  return "";
}

Result<void> Reader::finish() {
  state_->find_unknown(state_->document->root(), "");
  if (state_->faults.empty()) return {};
  return std::unexpected(Error{Code::kInvalid, "ConfigurationInvalid",
                               fmt::format("The configuration has {} fault(s).", state_->faults.size()),
                               state_->faults, std::nullopt, ""});
}

std::string Reader::print() const {
  YAML::Node root(YAML::NodeType::Map);
  for (const auto& [path, values] : state_->effective) {
    YAML::Node at = root;
    std::string_view rest = path;
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      at.reset(at[std::string(rest.substr(0, dot))]);
      rest = rest.substr(dot + 1);
    }
    YAML::Node value = at[std::string(rest)];
    if (!state_->lists.contains(path)) {
      value = values.front();
    } else {
      value = YAML::Node(YAML::NodeType::Sequence);
      for (const auto& item : values) value.push_back(item);
    }
  }
  for (const auto& name : state_->secrets) root["environment"][name] = "***";
  YAML::Emitter out;
  out << root;
  return std::string(out.c_str()) + "\n";
}

}  // namespace nodus::config
