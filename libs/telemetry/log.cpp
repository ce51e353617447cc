#include "libs/telemetry/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <memory>

#include "libs/base/clock.hpp"

namespace nodus::log {

namespace {

struct Log {
  std::string service = "-";
  std::shared_ptr<spdlog::logger> logger;
};

// Never destroyed: threads may still log while the process ends.
Log& the_log() {
  static Log& log = *[] {
    auto* made = new Log;
    made->logger =
        std::make_shared<spdlog::logger>("nodus", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->logger->set_pattern("%v");
    return made;
  }();
  return log;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      // Bytes above 0x7e may be any encoding; as Latin-1 escapes the line is valid JSON whatever they are.
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_value(std::string& out, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    append_json_string(out, *text);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    out += fmt::to_string(*integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    out += std::isfinite(*number) ? fmt::to_string(*number) : "null";
  } else {
    out += std::get<bool>(value) ? "true" : "false";
  }
}

void write(spdlog::level::level_enum level, std::string_view name, std::string_view event,
           std::initializer_list<Field> fields) {
  Log& log = the_log();
  if (!log.logger->should_log(level)) return;
  std::string line = "{\"at\":\"" + to_rfc3339(SystemClock().now()) + "\",\"level\":\"";
  line += name;
  line += "\",\"service\":";
  append_json_string(line, log.service);
  line += ",\"event\":";
  append_json_string(line, event);
  for (const Field& field : fields) {
    line += ',';
    append_json_string(line, field.name);
    line += ':';
    append_value(line, field.value);
  }
  line += '}';
  log.logger->log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void init(std::string_view service, std::string_view level) {
  Log& log = the_log();
  log.service = service;
  auto threshold = spdlog::level::info;
  if (level == "debug") threshold = spdlog::level::debug;
  if (level == "warn") threshold = spdlog::level::warn;
  if (level == "error") threshold = spdlog::level::err;
  log.logger->set_level(threshold);
}

void debug(std::string_view event, std::initializer_list<Field> fields) {
  write(spdlog::level::debug, "debug", event, fields);
}
void info(std::string_view event, std::initializer_list<Field> fields) {
  write(spdlog::level::info, "info", event, fields);
}
void warn(std::string_view event, std::initializer_list<Field> fields) {
  write(spdlog::level::warn, "warn", event, fields);
}
void error(std::string_view event, std::initializer_list<Field> fields) {
  write(spdlog::level::err, "error", event, fields);
}

}  // namespace nodus::log
