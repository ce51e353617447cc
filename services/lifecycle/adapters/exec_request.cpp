#include "services/lifecycle/adapters/exec_request.hpp"

#include <fmt/core.h>

#include "libs/base/random.hpp"
#include "libs/config/config.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr size_t kMaxArguments = 1024;
constexpr size_t kMaxCommandBytes = 64 * 1024;
constexpr size_t kMaxVariables = 256;

void read_command(Faults& faults, const json::object& in, std::vector<std::string>& out) {
  const auto* command = in.if_contains("command");
  if (!command || !command->is_array() || command->get_array().empty()) {
    faults.add("command", command ? "FieldTypeInvalid" : "FieldValueRequired",
               "A list of strings, the program first.");
    return;
  }
  size_t bytes = 0;
  for (const auto& argument : command->get_array()) {
    if (!argument.is_string() || std::string_view(argument.get_string()).contains('\0')) {
      faults.add(fmt::format("command[{}]", out.size()), "FieldTypeInvalid", "This is a string without NUL.");
      return;
    }
    out.emplace_back(argument.get_string());
    bytes += out.back().size() + 1;
  }
  if (out.front().empty()) faults.add("command[0]", "FieldValueInvalid", "Name a program.");
  if (out.size() > kMaxArguments || bytes > kMaxCommandBytes)
    faults.add("command", "FieldValueInvalid",
               "A command line holds at most 1,024 arguments and 64 KiB in total.");
}

void check_environment(Faults& faults, const json::object& in) {
  const auto* env = faults.object(in, "env", "env");
  if (!env) return;
  if (env->size() > kMaxVariables) faults.add("env", "FieldValueInvalid", "At most 256 variables.");
  for (const auto& [name, value] : *env)
    if (name.empty() || name.contains('=') || name.contains('\0') || !value.is_string() ||
        std::string_view(value.get_string()).contains('\0'))
      faults.add("env." + std::string(name).substr(0, 128), "FieldValueInvalid",
                 "A variable has a name without \"=\" and a string value.");
}

}  // namespace

Result<ExecRequest> parse_exec(const std::string& body, const SpecTimes& times) {
  auto root = parse_object(body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  ExecRequest out;
  out.process.timeout = times.command_default;
  faults.only(*root, "", {"command", "env", "workingDir", "timeout", "stdin"});
  read_command(faults, *root, out.process.command);
  check_environment(faults, *root);
  if (const auto* dir = faults.text(*root, "workingDir", "workingDir");
      dir && !dir->empty() && !valid_directory(*dir))
    faults.add("workingDir", "FieldValueInvalid",
               "An absolute path without \"..\", and not under /proc, /sys or /dev.");
  if (const auto* timeout = faults.text(*root, "timeout", "timeout")) {
    const auto duration = config::parse_duration(*timeout);
    if (!duration || *duration < Seconds(1) || *duration > times.command_max)
      faults.add("timeout", "FieldValueInvalid",
                 "A duration from 1s to " + config::format_duration(times.command_max) + ", such as 10m.");
    else
      out.process.timeout = *duration;
  }
  if (const auto* input = faults.text(*root, "stdin", "stdin")) {
    std::string bytes;
    if (!from_base64(*input, bytes)) faults.add("stdin", "FieldValueInvalid", "This is base64.");
  }
  if (faults.any()) return std::unexpected(faults.error("The command"));
  out.body = std::move(*root);
  return out;
}

}  // namespace nodus::lifecycle
