#include "libs/http/message.hpp"

#include <strings.h>

namespace nodus::http {

namespace {

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// A value can never end its line, whatever a caller put into it.
std::string one_line(std::string_view text) {
  std::string clean(text);
  for (char& c : clean)
    if (c == '\r' || c == '\n' || c == '\0') c = ' ';
  return clean;
}

}  // namespace

void Headers::set(std::string_view name, std::string_view value) {
  erase(name);
  add(name, value);
}

void Headers::add(std::string_view name, std::string_view value) {
  fields_.emplace_back(one_line(name), one_line(value));
}

void Headers::erase(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return same_name(field.first, name); });
}

std::optional<std::string> Headers::get(std::string_view name) const {
  for (const auto& [key, value] : fields_)
    if (same_name(key, name)) return value;
  return std::nullopt;
}

std::optional<std::string> Request::query_value(const std::string& name) const {
  const auto found = query.find(name);
  if (found == query.end()) return std::nullopt;
  return found->second;
}

Response json(int status, std::string body) {
  Response response;
  response.status = status;
  response.headers.set("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

}  // namespace nodus::http
