// The kinds of objects that the API serves: what discovery says of them, what selectors may ask, and their
// columns in a Table. One place, so that these cannot drift apart.
#pragma once

#include <boost/json.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/clock.hpp"

namespace nodus::lifecycle {

struct Column {
  enum class Form { kText, kNumber, kAge, kCost, kObject, kCommand };
  std::string_view name;
  std::string_view path;  // in the object, such as "status.phase"; empty: there is never a value
  Form form = Form::kText;
  int priority = 0;  // 1: only in wide output
  std::string_view description;
};

struct Resource {
  std::string_view plural;  // in paths, and in the changes of watchers
  std::string_view singular;
  std::string_view kind;
  std::string_view api_version;
  std::span<const std::string_view> short_names;
  std::span<const std::string_view> verbs;
  std::span<const std::string_view> fields;  // that a fieldSelector may name
  std::span<const Column> columns;
};

const Resource& sandbox_resource();
const Resource& process_resource();
const Resource& event_resource();
const Resource& budget_resource();
std::span<const Resource* const> resources();

// How an answer is to look, by the Accept header.
struct Form {
  enum class As { kObject, kTable, kMetadata };
  As as = As::kObject;
  enum class Include { kNone, kMetadata, kObject };
  Include include = Include::kMetadata;  // of the object, in a Table's row
};

// A Table of meta.k8s.io/v1; `definitions`: with the columns' definitions (a watch repeats none).
boost::json::object render_table(const Resource& resource, std::span<const boost::json::object> objects,
                                 boost::json::object metadata, Form::Include include, bool definitions,
                                 Instant now);
boost::json::object metadata_only(const boost::json::object& object, std::string_view kind);
// One object as `form` asks for it.
boost::json::object in_form(const Resource& resource, const Form& form, boost::json::object object,
                            bool definitions, Instant now);

std::string human_age(Micros age);  // 45s, 3m20s, 12m, 5h10m, 3d4h … as kubectl prints it

}  // namespace nodus::lifecycle
