#include "services/lifecycle/adapters/selectors.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "libs/base/check.hpp"
#include "libs/base/names.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr size_t kMaxBytes = 4096;
constexpr size_t kMaxRequirements = 64;
using Op = Requirement::Op;

std::unexpected<Error> refuse(std::string message) {
  return fail(Code::kBadRequest, "BadRequest", std::move(message));
}

// Words of a label selector: = == != ( ) , ! in notin, keys and values.
class LabelReader {
 public:
  explicit LabelReader(std::string_view text) : text_(text) {}

  Result<std::vector<Requirement>> read() {
    std::vector<Requirement> out;
    skip();
    while (!text_.empty()) {
      auto one = requirement();
      if (!one) return std::unexpected(std::move(one.error()));
      out.push_back(std::move(*one));
      if (out.size() > kMaxRequirements) return refuse("labelSelector: at most 64 requirements.");
      skip();
      if (text_.empty()) break;
      if (!take(",")) return bad();
      skip();
      if (text_.empty()) return bad();
    }
    return out;
  }

 private:
  Result<Requirement> requirement() {
    Requirement out;
    if (take("!")) {
      out.op = Op::kNotExists;
      skip();
    }
    out.key = word();
    if (!is_metadata_key(out.key))
      return refuse(fmt::format("labelSelector: \"{}\" is not a label key.", out.key));
    skip();
    if (out.op == Op::kNotExists || text_.empty() || text_.front() == ',') return out;
    const bool unequal = take("!=");
    if (unequal || take("==") || take("=")) {
      out.op = unequal ? Op::kNotIn : Op::kIn;
      skip();
      out.values.push_back(word());
    } else {
      const std::string op = word();
      if (op != "in" && op != "notin") return bad();
      out.op = op == "in" ? Op::kIn : Op::kNotIn;
      if (!set(out.values)) return bad();
    }
    for (const auto& value : out.values)
      if (!value.empty() && !is_qualified_name(value))
        return refuse(fmt::format("labelSelector: \"{}\" is not a label value.", value));
    return out;
  }

  bool set(std::vector<std::string>& values) {
    skip();
    if (!take("(")) return false;
    while (true) {
      skip();
      values.push_back(word());
      skip();
      if (take(")")) return true;
      if (!take(",")) return false;
    }
  }

  std::string word() {
    size_t size = 0;
    while (size < text_.size() && !std::string_view(" \t,()=!").contains(text_[size])) ++size;
    std::string out(text_.substr(0, size));
    text_.remove_prefix(size);
    return out;
  }
  bool take(std::string_view token) {
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void skip() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\t')) text_.remove_prefix(1);
  }
  std::unexpected<Error> bad() const {
    return refuse(
        fmt::format("labelSelector: cannot read it at \"{}\". Write such as app=web,tier in (a,b),!old.",
                    text_.substr(0, 64)));
  }

  std::string_view text_;
};

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

bool holds(const Requirement& r, const json::value* value) {
  const auto* text = value ? value->if_string() : nullptr;
  const bool among = text && std::ranges::find(r.values, std::string_view(*text)) != r.values.end();
  switch (r.op) {
    case Op::kIn:
      return among;
    case Op::kNotIn:
      return !among;
    case Op::kExists:
      return text != nullptr;
    case Op::kNotExists:
      return text == nullptr;
  }
  return false;
}

bool holds_field(const Requirement& r, const json::value* value) {  // a field that is missing is ""
  static const json::value kEmpty("");
  return holds(r, value && value->is_string() ? value : &kEmpty);
}

std::string placeholder(std::string value, std::vector<std::string>& parameters) {
  parameters.push_back(std::move(value));
  return fmt::format("${}::text", parameters.size());
}

}  // namespace

Result<std::vector<Requirement>> parse_label_selector(std::string_view text) {
  if (text.size() > kMaxBytes) return refuse("labelSelector: at most 4 KiB.");
  return LabelReader(text).read();
}

Result<std::vector<Requirement>> parse_field_selector(std::string_view text,
                                                      std::span<const std::string_view> supported) {
  if (text.size() > kMaxBytes) return refuse("fieldSelector: at most 4 KiB.");
  std::vector<Requirement> out;
  while (!text.empty()) {
    std::string key;
    std::string value;
    std::string* into = &key;
    Requirement one;
    size_t i = 0;
    for (; i < text.size() && text[i] != ','; ++i) {
      const char next = i + 1 < text.size() ? text[i + 1] : '\0';
      if (text[i] == '\\' && (next == '\\' || next == ',' || next == '=')) {
        into->push_back(next);
        ++i;
      } else if (into == &key && (text[i] == '=' || (text[i] == '!' && next == '='))) {
        one.op = text[i] == '!' ? Op::kNotIn : Op::kIn;
        if (next == '=') ++i;
        into = &value;
      } else {
        into->push_back(text[i]);
      }
    }
    text.remove_prefix(std::min(text.size(), i + 1));
    if (into == &key && key.empty()) continue;  // ",": as Kubernetes
    if (into == &key)
      return refuse(fmt::format("fieldSelector: \"{}\" has no operator; write field=value or field!=value.",
                                key.substr(0, 64)));
    if (std::ranges::find(supported, key) == supported.end())
      return refuse(fmt::format("fieldSelector: the field \"{}\" is not supported; supported: {}.",
                                key.substr(0, 64), fmt::join(supported, ", ")));
    one.key = std::move(key);
    one.values.push_back(std::move(value));
    out.push_back(std::move(one));
    if (out.size() > kMaxRequirements) return refuse("fieldSelector: at most 64 requirements.");
  }
  return out;
}

bool matches(const Selector& selector, const json::object& object) {
  static const json::object kNone;
  const auto* labels = selector.labels.empty() ? nullptr : member(object, "metadata.labels");
  const json::object& map = labels && labels->is_object() ? labels->get_object() : kNone;
  return std::ranges::all_of(selector.labels,
                             [&](const auto& r) { return holds(r, map.if_contains(r.key)); }) &&
         std::ranges::all_of(selector.fields,
                             [&](const auto& r) { return holds_field(r, member(object, r.key)); });
}

std::string selector_sql(const Selector& selector, std::string_view labels,
                         std::span<const FieldColumn> columns, std::vector<std::string>& parameters) {
  std::string sql;
  for (const auto& r : selector.labels) {
    const std::string key = placeholder(r.key, parameters);
    if (r.op == Op::kExists || r.op == Op::kNotExists) {
      sql += fmt::format(" AND {}({} ? {})", r.op == Op::kExists ? "" : "NOT ", labels, key);
    } else if (r.op == Op::kIn && r.values.size() == 1) {  // this form is answered by the index
      sql += fmt::format(" AND {} @> jsonb_build_object({}, {})", labels, key,
                         placeholder(r.values.front(), parameters));
    } else {
      std::string list;
      for (const auto& value : r.values) list += (list.empty() ? "" : ", ") + placeholder(value, parameters);
      sql += fmt::format(" AND {}(coalesce({} ->> {} IN ({}), false))", r.op == Op::kIn ? "" : "NOT ", labels,
                         key, list);
    }
  }
  for (const auto& r : selector.fields) {
    const auto column = std::ranges::find(columns, r.key, &FieldColumn::field);
    CHECK(column != columns.end(), "no column for {}", r.key);
    sql += fmt::format(" AND {} {} {}", column->sql, r.op == Op::kIn ? "=" : "<>",
                       placeholder(r.values.front(), parameters));
  }
  return sql;
}

}  // namespace nodus::lifecycle
