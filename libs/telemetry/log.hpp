// Logs: one JSON line on stderr with a stable event name and fields. No secrets, no payloads. The owner of
// spdlog.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace nodus::log {

using Value = std::variant<std::string, int64_t, double, bool>;
struct Field {
  std::string_view name;
  Value value;
};

void init(std::string_view service, std::string_view level = "info");  // debug | info | warn | error
void debug(std::string_view event, std::initializer_list<Field> fields = {});
void info(std::string_view event, std::initializer_list<Field> fields = {});
void warn(std::string_view event, std::initializer_list<Field> fields = {});
void error(std::string_view event, std::initializer_list<Field> fields = {});

}  // namespace nodus::log
