#include "services/lifecycle/adapters/exec_request.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "libs/base/random.hpp"
#include "libs/config/config.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr size_t kMaxArguments = 1024;
constexpr size_t kMaxCommandBytes = 64 * 1024;
constexpr size_t kMaxVariables = 256;
constexpr size_t kMaxEnvironmentBytes = 256 * 1024;
constexpr size_t kMaxPathBytes = 4095;

// Both forms end up here: one command in the form of the JSON body, already typed.
class Checker {
 public:
  Checker(Faults& faults, const SpecTimes& times, ExecRequest& out)
      : faults_(faults), times_(times), out_(out) {}

  void command(std::vector<std::string> arguments) {
    size_t bytes = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].contains('\0'))
        faults_.add(fmt::format("command[{}]", i), "FieldValueInvalid", "An argument has no NUL byte.");
      bytes += arguments[i].size() + 1;
    }
    if (arguments.empty())
      faults_.add("command", "FieldValueRequired", "A list of strings, the program first.");
    else if (arguments.front().empty())
      faults_.add("command[0]", "FieldValueInvalid", "Name a program.");
    if (arguments.size() > kMaxArguments || bytes > kMaxCommandBytes)
      faults_.add("command", "FieldValueInvalid",
                  "A command line holds at most 1,024 arguments and 64 KiB in total.");
    out_.process.command = std::move(arguments);
  }

  void variable(const std::string& field, const std::string& name, const std::string& value) {
    if (name.empty() || name.contains('=') || name.contains('\0') || value.contains('\0'))
      faults_.add(field, "FieldValueInvalid",
                  "A variable has a name without \"=\" and a value, both without NUL bytes.");
    env_bytes_ += name.size() + value.size() + 2;
    env_[name] = value;
  }
  void end_of_variables() {
    if (env_.size() > kMaxVariables)
      faults_.add("env", "FieldValueInvalid", "At most 256 variables.");
    else if (env_bytes_ > kMaxEnvironmentBytes)
      faults_.add("env", "FieldValueInvalid", "At most 256 KiB in total.");
    if (!env_.empty()) out_.body["env"] = std::move(env_);
  }

  void working_dir(const std::string& path) {
    if (path.empty()) return;
    if (!valid_directory(path) || path.size() > kMaxPathBytes)
      faults_.add("workingDir", "FieldValueInvalid",
                  "An absolute path without \"..\", and not under /proc, /sys or /dev.");
    out_.process.working_dir = path;
    out_.body["workingDir"] = path;
  }

  // A terminal is open as long as a person needs it.
  void timeout(const std::optional<std::string>& text) {
    out_.process.timeout = out_.process.tty ? times_.command_max : times_.command_default;
    if (!text) return;
    const auto duration = config::parse_duration(*text);
    if (!duration || *duration < Seconds(1) || *duration > times_.command_max)
      faults_.add("timeout", "FieldValueInvalid",
                  "A duration from 1s to " + config::format_duration(times_.command_max) + ", such as 10m.");
    else
      out_.process.timeout = *duration;
  }

  void terminal(bool tty) {
    out_.process.tty = tty;
    if (tty) out_.body["tty"] = true;
  }

 private:
  Faults& faults_;
  const SpecTimes& times_;
  ExecRequest& out_;
  json::object env_;
  size_t env_bytes_ = 0;
};

// Nothing: it is not a list of strings, and a fault says so.
std::optional<std::vector<std::string>> arguments_of(Faults& faults, const json::object& in) {
  std::vector<std::string> out;
  const auto* command = in.if_contains("command");
  if (!command) return out;
  if (!command->is_array()) {
    faults.add("command", "FieldTypeInvalid", "This is a list of strings.");
    return std::nullopt;
  }
  for (const auto& argument : command->get_array()) {
    if (!argument.is_string()) {
      faults.add(fmt::format("command[{}]", out.size()), "FieldTypeInvalid", "This is a string.");
      return std::nullopt;
    }
    out.emplace_back(argument.get_string());
  }
  return out;
}

}  // namespace

Result<ExecRequest> parse_exec(const std::string& body, const SpecTimes& times) {
  auto root = parse_object(body);
  if (!root) return std::unexpected(std::move(root.error()));
  Faults faults;
  ExecRequest out;
  Checker check(faults, times, out);
  faults.only(*root, "", {"command", "env", "workingDir", "timeout", "stdin"});
  auto arguments = arguments_of(faults, *root);
  if (arguments) check.command(std::move(*arguments));
  if (const auto* env = faults.object(*root, "env", "env"))
    for (const auto& [name, value] : *env) {
      const std::string field = "env." + std::string(name).substr(0, 128);
      if (value.is_string())
        check.variable(field, std::string(name), std::string(value.get_string()));
      else
        faults.add(field, "FieldTypeInvalid", "This is a string.");
    }
  check.end_of_variables();
  if (const auto* dir = faults.text(*root, "workingDir", "workingDir")) check.working_dir(std::string(*dir));
  const auto* timeout = faults.text(*root, "timeout", "timeout");
  check.timeout(timeout ? std::optional<std::string>(*timeout) : std::nullopt);
  if (const auto* input = faults.text(*root, "stdin", "stdin")) {
    std::string bytes;
    if (!from_base64(*input, bytes)) faults.add("stdin", "FieldValueInvalid", "This is base64.");
    out.body["stdin"] = *input;
  }
  if (faults.any()) return std::unexpected(faults.error("The command"));
  out.input = body;
  return out;
}

bool query_switch(Faults& faults, const http::Request& request, const std::string& name, bool otherwise) {
  const auto text = request.query_value(name);
  if (!text) return otherwise;
  std::string lower = *text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower.empty() || lower == "true" || lower == "1") return true;
  if (lower != "false" && lower != "0") faults.add(name, "FieldValueInvalid", "true or false.");
  return false;
}

uint64_t query_offset(Faults& faults, const http::Request& request) {
  const auto text = request.query_value("offset");
  if (!text) return 0;
  if (text->empty() || text->size() > 18 || text->find_first_not_of("0123456789") != std::string::npos) {
    faults.add("offset", "FieldValueInvalid", "A number of bytes, 0 or more.");
    return 0;
  }
  return std::stoull(*text);
}

Result<ExecRequest> parse_exec_query(const http::Request& request, const std::string& input, bool streams,
                                     const SpecTimes& times) {
  static const std::set<std::string> kKnown = {"command",    "stdin",   "stdout",    "stderr",  "tty",
                                               "workingDir", "timeout", "env",       "offset",  "wait",
                                               "rows",       "cols",    "container", "encoding"};
  Faults faults;
  ExecRequest out;
  Checker check(faults, times, out);
  std::vector<std::string> arguments;
  std::string hashed;
  size_t variables = 0;
  check.terminal(query_switch(faults, request, "tty", false));
  for (const auto& [name, value] : request.query) {  // values of one name are in the order sent
    if (!kKnown.contains(name))
      faults.add(name.substr(0, 128), "FieldNotSupported", "There is no such parameter.");
    if (name == "command") arguments.push_back(value);
    if (name == "env") {
      const size_t equals = value.find('=');
      const bool pair = equals != std::string::npos;  // a name alone is a slip: an empty name is a fault
      check.variable(fmt::format("env[{}]", variables++), pair ? value.substr(0, equals) : "",
                     pair ? value.substr(equals + 1) : "");
    }
    // What may be another in a repeat: how the answer is wanted, and the size of a window.
    static const std::set<std::string> kOfTheAnswer = {"offset", "wait", "encoding", "rows", "cols"};
    if (!kOfTheAnswer.contains(name))
      hashed += fmt::format("{}:{}={}:{}\n", name.size(), name, value.size(), value);
  }
  check.command(std::move(arguments));
  check.end_of_variables();
  check.working_dir(request.query_value("workingDir").value_or(""));
  check.timeout(request.query_value("timeout"));
  out.wants_stdin = query_switch(faults, request, "stdin", false);
  out.wants_stdout = query_switch(faults, request, "stdout", !streams || !request.query.contains("stderr"));
  out.wants_stderr = query_switch(faults, request, "stderr", !streams || !request.query.contains("stdout"));
  for (const std::string name : {"rows", "cols"})
    if (const auto text = request.query_value(name)) {
      const bool number = !text->empty() && text->size() <= 4 &&
                          text->find_first_not_of("0123456789") == std::string::npos && *text != "0";
      if (!number || !out.process.tty)
        faults.add(name, "FieldValueInvalid", "A number from 1 to 9999, with tty=true.");
      else
        out.body[name] = std::stoi(*text);
    }
  if (out.process.tty && !streams)
    faults.add("tty", "FieldValueInvalid", "A terminal needs a stream: connect with Upgrade: websocket.");
  out.process.stdin_open = streams && out.wants_stdin;
  if (out.process.stdin_open) out.body["stdinOpen"] = true;
  if (!input.empty()) out.body["stdin"] = to_base64(input);
  if (faults.any()) return std::unexpected(faults.error("The command"));
  out.input = hashed + input;
  return out;
}

}  // namespace nodus::lifecycle
