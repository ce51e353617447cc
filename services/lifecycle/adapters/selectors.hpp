// Label and field selectors, as Kubernetes writes them: "app=web,tier in (a,b),!old",
// "status.phase!=Running".
#pragma once

#include <boost/json.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::lifecycle {

struct Requirement {
  enum class Op { kIn, kNotIn, kExists, kNotExists };  // kNotIn also holds where there is no such key
  std::string key;
  Op op = Op::kExists;
  std::vector<std::string> values;
};

struct Selector {
  std::vector<Requirement> labels;
  std::vector<Requirement> fields;  // kIn and kNotIn with one value
  bool empty() const { return labels.empty() && fields.empty(); }
};

// BadRequest, with what is wrong. At most 4 KiB and 64 requirements.
Result<std::vector<Requirement>> parse_label_selector(std::string_view text);
Result<std::vector<Requirement>> parse_field_selector(std::string_view text,
                                                      std::span<const std::string_view> supported);

bool matches(const Selector& selector, const boost::json::object& object);

// The same question to PostgreSQL: conditions that begin with AND, over the parameters added to `parameters`
// (which may hold some already). `labels`: a jsonb expression; `column_of`: the SQL of a field.
struct FieldColumn {
  std::string_view field;
  std::string_view sql;
};
std::string selector_sql(const Selector& selector, std::string_view labels,
                         std::span<const FieldColumn> columns, std::vector<std::string>& parameters);

}  // namespace nodus::lifecycle
