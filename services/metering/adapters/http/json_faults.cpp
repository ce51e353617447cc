#include "services/metering/adapters/http/json_faults.hpp"

#include <algorithm>
#include <utility>

namespace nodus::metering {

namespace json = boost::json;

namespace {

const json::value* given(const json::object& in, std::string_view name) {
  const auto* found = in.if_contains(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

}  // namespace

JsonFaults::JsonFaults(std::string message, std::string unknown)
    : error_{Code::kInvalid, "Invalid", std::move(message), {}, {}, {}}, unknown_(std::move(unknown)) {}

void JsonFaults::add(std::string field, std::string reason, std::string message) {
  error_.causes.push_back({std::move(field), std::move(reason), std::move(message)});
}

void JsonFaults::value(std::string field, std::string message) {
  add(std::move(field), "FieldValueInvalid", std::move(message));
}

void JsonFaults::only(const json::object& in, const std::string& path,
                      std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : in)
    if (std::ranges::find(known, std::string_view(key)) == known.end())
      add(path + std::string(key).substr(0, 128), "FieldUnknown", unknown_);
}

const json::object* JsonFaults::object(const json::object& in, std::string_view name,
                                       const std::string& path) {
  const auto* found = given(in, name);
  if (found == nullptr) return nullptr;
  if (!found->is_object()) add(path, "FieldTypeInvalid", "An object goes here.");
  return found->if_object();
}

std::string JsonFaults::text(const json::object& in, std::string_view name, const std::string& path,
                             const char* wanted) {
  const auto* found = given(in, name);
  if (found == nullptr) return "";
  if (!found->is_string()) add(path, "FieldTypeInvalid", wanted);
  return found->is_string() ? std::string(found->get_string()) : "";
}

int JsonFaults::whole_number(const json::object& in, std::string_view name, const std::string& path,
                             int otherwise) {
  const auto* found = given(in, name);
  if (found == nullptr) return otherwise;
  const bool fits = found->is_int64() && std::in_range<int>(found->get_int64());
  if (!fits) add(path, "FieldTypeInvalid", "A whole number goes here.");
  return fits ? static_cast<int>(found->get_int64()) : otherwise;
}

bool JsonFaults::required_switch(const json::object& in, std::string_view name, const std::string& path) {
  const auto* found = given(in, name);
  if (found == nullptr) add(path, "FieldValueRequired", "true or false goes here.");
  if (found != nullptr && !found->is_bool()) add(path, "FieldTypeInvalid", "true or false goes here.");
  return found != nullptr && found->is_bool() && found->get_bool();
}

}  // namespace nodus::metering
