#include "services/executor/process/exec_request.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "libs/base/random.hpp"
#include "services/executor/helper/protocol.hpp"

namespace nodus::executor {
namespace json = boost::json;
namespace {
constexpr size_t kCommandBytes = 64 * 1024, kVariables = 512, kEnvironmentBytes = 512 * 1024;
constexpr size_t kNameBytes = 253, kPathBytes = 4095;
constexpr int64_t kMostTimeout_ms = 24 * 3'600'000;
constexpr size_t kMostCauses = 50;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

class Parser {
 public:
  explicit Parser(const json::object& root) : root_(root) {}
  Result<CommandRequest> run();

 private:
  void wrong(const std::string& field, const char* reason, std::string message) {
    malformed_ |= std::string_view(reason) != "FieldValueInvalid";
    if (causes_.size() < kMostCauses) causes_.push_back({field, reason, std::move(message)});
  }
  void invalid(const std::string& field, std::string message) {
    wrong(field, "FieldValueInvalid", std::move(message));
  }
  const json::string* text(const char* field, bool required);
  void read_command();
  void read_env();
  void read_times();
  void read_input();
  void read_terminal();
  bool flag(const char* field);
  const json::object& root_;
  CommandRequest out_;
  std::vector<Cause> causes_;
  bool malformed_ = false;
};

bool has_nul(std::string_view text) {
  return text.find('\0') != text.npos;
}

const json::string* Parser::text(const char* field, bool required) {
  const auto* value = root_.if_contains(field);
  if (!value) {
    if (required) wrong(field, "FieldValueRequired", "This field is required.");
    return nullptr;
  }
  if (!value->is_string()) wrong(field, "FieldValueTypeInvalid", "This is a string.");
  return value->if_string();
}

void Parser::read_command() {
  const auto* value = root_.if_contains("command");
  const auto* list = value ? value->if_array() : nullptr;
  if (!value) return wrong("command", "FieldValueRequired", "This field is required.");
  if (!list) return wrong("command", "FieldValueTypeInvalid", "This is a list of strings.");
  if (list->empty() || list->size() > helper::kMaxArguments)
    return invalid("command", "A command has 1 to 1,024 arguments.");
  size_t bytes = 0;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string field = "command[" + std::to_string(i) + "]";
    const auto* argument = (*list)[i].if_string();
    if (!argument) {
      wrong(field, "FieldValueTypeInvalid", "This is a string.");
      continue;
    }
    if (has_nul(*argument)) invalid(field, "An argument has no NUL byte.");
    if (i == 0 && argument->empty()) invalid(field, "The program has a name.");
    bytes += argument->size() + 1;
    out_.argv.emplace_back(*argument);
  }
  if (bytes > kCommandBytes) invalid("command", "A command has at most 64 KiB in total.");
}

void Parser::read_env() {
  const auto* value = root_.if_contains("env");
  if (!value) return;
  const auto* map = value->if_object();
  if (!map) return wrong("env", "FieldValueTypeInvalid", "This is a map of strings.");
  if (map->size() > kVariables) return invalid("env", "At most 512 variables.");
  size_t bytes = 0;
  for (const auto& [name, each] : *map) {
    const std::string field = "env." + std::string(name).substr(0, 128);
    const auto* content = each.if_string();
    if (!content) {
      wrong(field, "FieldValueTypeInvalid", "This is a string.");
      continue;
    }
    if (name.empty() || name.find('=') != name.npos || has_nul(name) || has_nul(*content))
      invalid(field, "A variable has a name without \"=\", and no NUL byte.");
    bytes += name.size() + content->size() + 2;
    out_.env.push_back(std::string(name) + "=" + std::string(*content));
  }
  if (bytes > kEnvironmentBytes) invalid("env", "At most 512 KiB in total.");
}

void Parser::read_times() {
  const auto* value = root_.if_contains("timeoutMs");
  if (!value) {
    if (out_.terminal) out_.timeout = Millis(kMostTimeout_ms);
    return;
  }
  boost::system::error_code fault;
  const auto timeout_ms = value->to_number<int64_t>(fault);
  if (fault || !value->is_number())
    return wrong("timeoutMs", "FieldValueTypeInvalid", "This is a whole number.");
  if (timeout_ms < 1 || timeout_ms > kMostTimeout_ms) return invalid("timeoutMs", "From 1 ms to 24 hours.");
  out_.timeout = Millis(timeout_ms);
}

void Parser::read_input() {
  if (const auto* directory = text("workingDir", false); directory && !directory->empty()) {
    if (directory->front() != '/' || directory->size() > kPathBytes || has_nul(*directory))
      invalid("workingDir", "An absolute path of at most 4,095 bytes.");
    out_.working_dir = std::string(*directory);
  }
  if (const auto* input = text("stdin", false); input && !from_base64(*input, out_.stdin_bytes))
    invalid("stdin", "This is base64.");
}

bool Parser::flag(const char* field) {
  const auto* value = root_.if_contains(field);
  if (value && !value->is_bool()) wrong(field, "FieldValueTypeInvalid", "This is true or false.");
  return value && value->is_bool() && value->get_bool();
}

void Parser::read_terminal() {
  out_.terminal = flag("tty");
  out_.stdin_open = flag("stdinOpen");
  for (const auto& [field, into] : {std::pair{"rows", &out_.rows}, std::pair{"cols", &out_.columns}}) {
    const auto* value = root_.if_contains(field);
    if (!value) continue;
    boost::system::error_code fault;
    const auto size = value->to_number<int64_t>(fault);
    if (fault || !value->is_number()) {
      wrong(field, "FieldValueTypeInvalid", "This is a whole number.");
    } else if (size < 0 || size > UINT16_MAX) {
      invalid(field, "From 0 to 65,535.");
    } else {
      *into = static_cast<uint16_t>(size);
    }
  }
}

Result<CommandRequest> Parser::run() {
  constexpr std::string_view kKnown[] = {"uid",   "name", "command",   "env",  "workingDir", "timeoutMs",
                                         "stdin", "tty",  "stdinOpen", "rows", "cols"};
  for (const auto& [name, value] : root_)
    if (std::find(std::begin(kKnown), std::end(kKnown), std::string_view(name)) == std::end(kKnown))
      wrong(std::string(name).substr(0, 128), "FieldNotSupported", "There is no such field.");
  if (const auto* uid = text("uid", true)) {
    if (!valid_uid(*uid)) invalid("uid", "A UUID in lower case.");
    out_.uid = std::string(*uid);
  }
  if (const auto* name = text("name", true)) {
    if (name->empty() || name->size() > kNameBytes || has_nul(*name)) invalid("name", "1 to 253 bytes.");
    out_.name = std::string(*name);
  }
  read_command();
  read_env();
  read_terminal();
  read_times();
  read_input();
  if (causes_.empty()) return std::move(out_);
  Error error{
      malformed_ ? Code::kBadRequest : Code::kInvalid, malformed_ ? "BadRequest" : "Invalid", "", {}, {}, {}};
  error.message = "The command has " + std::to_string(causes_.size()) +
                  " faults, the first: " + causes_[0].field + ": " + causes_[0].message;
  error.causes = std::move(causes_);
  return std::unexpected(std::move(error));
}
}  // namespace

bool valid_uid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !is_hex(text[i])) return false;
  }
  return true;
}

bool valid_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), is_hex);
}

Result<CommandRequest> parse_exec_request(std::string_view body) {
  boost::system::error_code fault;
  json::parse_options options;
  options.max_depth = 8;
  const json::value root = json::parse(body, fault, {}, options);
  if (fault) return fail(Code::kBadRequest, "BadRequest", "The body is not JSON: " + fault.message() + ".");
  if (!root.is_object()) return fail(Code::kBadRequest, "BadRequest", "The body is a JSON object.");
  return Parser(root.get_object()).run();
}

}  // namespace nodus::executor
