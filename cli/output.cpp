#include "cli/output.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>

#include "libs/money/money.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {

std::string or_dash(std::string text) {
  return text.empty() ? "-" : text;
}

void pretty(const json::value& value, size_t depth, std::string& out) {
  const std::string indent(2 * depth + 2, ' ');
  const auto close = [&](char bracket) {
    out += '\n';
    out.append(2 * depth, ' ');
    out += bracket;
  };
  if (value.is_object() && !value.get_object().empty()) {
    out += '{';
    const char* separator = "\n";
    for (const auto& [key, item] : value.get_object()) {
      out += separator + indent + json::serialize(json::string(key)) + ": ";
      pretty(item, depth + 1, out);
      separator = ",\n";
    }
    close('}');
  } else if (value.is_array() && !value.get_array().empty()) {
    out += '[';
    const char* separator = "\n";
    for (const json::value& item : value.get_array()) {
      out += separator + indent;
      pretty(item, depth + 1, out);
      separator = ",\n";
    }
    close(']');
  } else {
    out += json::serialize(value);
  }
}

// Without quotes only what cannot be read as anything but a text.
bool is_plain(std::string_view text) {
  static constexpr std::array<std::string_view, 9> kWords{"true", "false", "null", "yes", "no",
                                                          "on",   "off",   "y",    "n"};
  if (text.empty() || text.size() > 200) return false;
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (std::ranges::find(kWords, lower) != kWords.end()) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/'; };
  return letter(text.front()) && std::ranges::all_of(text, [&](char c) {
           return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
         });
}

void emit(YAML::Emitter& out, const json::value& value) {
  if (value.is_object()) {
    if (value.get_object().empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, item] : value.get_object()) {
      out << YAML::Key << std::string(key) << YAML::Value;
      emit(out, item);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    if (value.get_array().empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const json::value& item : value.get_array()) emit(out, item);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    const std::string text(value.get_string());
    if (!is_plain(text)) out << YAML::DoubleQuoted;
    out << text;
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << json::serialize(value);
  }
}

}  // namespace

const json::value* value_at(const json::value& value, std::string_view path) {
  const json::value* at = &value;
  while (at && !path.empty()) {
    const size_t dot = path.find('.');
    at = at->is_object() ? at->get_object().if_contains(path.substr(0, dot)) : nullptr;
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return at;
}

std::string text_at(const json::value& value, std::string_view path) {
  const json::value* found = value_at(value, path);
  if (!found || found->is_null()) return "";
  return found->is_string() ? std::string(found->get_string()) : json::serialize(*found);
}

std::string Table::add(const std::vector<std::vector<std::string>>& rows) {
  std::vector<const std::vector<std::string>*> shown;
  if (widths_.empty()) shown.push_back(&head_);
  for (const auto& row : rows) shown.push_back(&row);
  for (const auto* row : shown) {
    widths_.resize(std::max(widths_.size(), row->size()));
    for (size_t i = 0; i < row->size(); ++i) widths_[i] = std::max(widths_[i], (*row)[i].size());
  }
  std::string text;
  for (const auto* row : shown) {
    std::string line;
    for (size_t i = 0; i < row->size(); ++i) line += fmt::format("{:<{}}", (*row)[i], widths_[i] + 3);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  return Table(rows.front()).add({rows.begin() + 1, rows.end()});
}

std::string format_age(Micros age) {
  const int64_t seconds = std::max<int64_t>(0, age.count() / 1'000'000);
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 120 * 60) return fmt::format("{}m", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86'400);
}

std::string format_cost(std::string_view usd) {
  const size_t dot = usd.find('.');
  std::string digits(usd.substr(0, dot));
  std::string fraction(dot == std::string_view::npos ? "" : usd.substr(dot + 1));
  const auto all_digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (digits.empty() || !all_digits(digits) || !all_digits(fraction)) return "-";
  fraction.resize(std::max<size_t>(fraction.size(), 5), '0');
  digits += fraction.substr(0, 4);
  if (fraction[4] >= '5') {
    size_t at = digits.size();
    while (at > 0 && digits[at - 1] == '9') digits[--at] = '0';
    if (at > 0) {
      ++digits[at - 1];
    } else {
      digits.insert(0, "1");
    }
  }
  return "$" + digits.substr(0, digits.size() - 4) + "." + digits.substr(digits.size() - 4);
}

std::string age_of(const json::value& object, Instant now) {
  std::string made = text_at(object, "metadata.creationTimestamp");
  if (made.empty()) made = text_at(object, "status.startedAt");
  const auto at = parse_rfc3339(made);
  return at ? format_age(now - *at) : "-";
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::string command_line(const json::value& process) {
  std::string command;
  if (const json::value* words = value_at(process, "spec.command"); words && words->is_array())
    for (const json::value& word : words->get_array())
      command += (command.empty() ? "" : " ") +
                 (word.is_string() ? std::string(word.get_string()) : json::serialize(word));
  return one_line(std::move(command));
}

std::string cap_left_of(const json::value& sandbox) {
  const auto cap = Money::parse(text_at(sandbox, "spec.maxCostUSD"));
  const auto cost = Money::parse(text_at(sandbox, "status.cost"));
  const auto rate = Money::parse(text_at(sandbox, "status.rate"));
  if (!cap || !cost || !rate || *rate <= Money()) return "";
  const int128 seconds = std::max<int128>(0, (*cap - *cost).pico()) / rate->pico();
  constexpr int64_t kLong = 100LL * 365 * 86'400;
  return format_age(Seconds(seconds < kLong ? static_cast<int64_t>(seconds) : kLong));
}

std::string next_of(const json::value& sandbox, Instant now) {
  const std::string action = text_at(sandbox, "status.next.action");
  const auto at = parse_rfc3339(text_at(sandbox, "status.next.at"));
  if (action.empty() || !at) return "";
  const std::string reason = text_at(sandbox, "status.next.reason");
  return fmt::format("{} in {}{}", action, format_age(*at - now), reason.empty() ? "" : " (" + reason + ")");
}

std::vector<std::string> head_of(Kind kind, bool wide) {
  std::vector<std::string> head, more;
  switch (kind) {
    case Kind::kSandbox:
      head = {"NAME", "PHASE", "ACTIVITY", "CPU", "MEMORY", "GPU", "COST", "AGE"};
      more = {"DISK", "IMAGE", "STOP-REASON", "NEXT", "RATE", "CAP-LEFT"};
      break;
    case Kind::kProcess:
      head = {"NAME", "SANDBOX", "PHASE", "REASON", "EXIT", "AGE", "COMMAND"};
      more = {"STARTED", "ENDED", "TIMEOUT"};
      break;
    case Kind::kEvent:
      head = {"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"};
      more = {"COUNT", "FIRST SEEN"};
      break;
    case Kind::kBudget:
      head = {"NAME", "PERIOD", "LIMIT", "SPENT", "HELD", "REMAINING", "EXHAUSTED", "AGE"};
      more = {"RESETS", "THRESHOLD"};
  }
  if (wide) head.insert(head.end(), more.begin(), more.end());
  return head;
}

namespace {

std::string since(const json::value& object, std::string_view path, Instant now) {
  const auto at = parse_rfc3339(text_at(object, path));
  return at ? format_age(now - *at) : "-";
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

}  // namespace

std::vector<std::string> row_of(Kind kind, const json::value& o, bool wide, Instant now) {
  const auto text = [&](std::string_view path) { return or_dash(one_line(text_at(o, path))); };
  std::vector<std::string> row, more;
  switch (kind) {
    case Kind::kSandbox:
      row = {text("metadata.name"),
             text("status.phase"),
             text("status.activity"),
             text("spec.resources.cpu"),
             text("spec.resources.memory"),
             text("spec.resources.gpu"),
             format_cost(text_at(o, "status.cost")),
             age_of(o, now)};
      more = {text("spec.resources.disk"), text("spec.image"),  text("status.stopReason"),
              or_dash(next_of(o, now)),    text("status.rate"), or_dash(cap_left_of(o))};
      break;
    case Kind::kProcess: {
      std::string command = command_line(o);
      if (command.size() > 60 && !wide) command = command.substr(0, 57) + "...";
      row = {text("metadata.name"),
             text("spec.sandbox"),
             text("status.phase"),
             text("status.reason"),
             text("status.exitCode"),
             age_of(o, now),
             command};
      more = {text("status.startedAt"), text("status.endedAt"), text("spec.timeout")};
      break;
    }
    case Kind::kEvent:
      row = {since(o, "lastTimestamp", now), text("type"), text("reason"),
             lower(text_at(o, "involvedObject.kind")) + "/" + text("involvedObject.name"), text("message")};
      more = {text("count"), since(o, "firstTimestamp", now)};
      break;
    case Kind::kBudget:
      row = {text("metadata.name"),
             text("spec.period"),
             format_cost(text_at(o, "spec.limitUSD")),
             format_cost(text_at(o, "status.spentUSD")),
             format_cost(text_at(o, "status.heldUSD")),
             format_cost(text_at(o, "status.remainingUSD")),
             text("status.exhaustedAt"),
             age_of(o, now)};
      more = {text("status.resetsAt"), text("status.thresholdReachedPercent")};
  }
  if (wide) row.insert(row.end(), more.begin(), more.end());
  return row;
}

std::string bill_totals(const json::value& bill) {
  std::vector<std::vector<std::string>> rows;
  if (const auto from = text_at(bill, "from"); !from.empty()) rows.push_back({"FROM", from});
  if (const auto at = text_at(bill, "at"); !at.empty()) rows.push_back({"UNTIL", at});
  rows.push_back({"TOTAL", or_dash(text_at(bill, "total"))});
  rows.push_back({"BALANCE", or_dash(text_at(bill, "balance"))});
  return format_table(rows);
}

std::string to_pretty_json(const json::value& value) {
  std::string text;
  pretty(value, 0, text);
  return text + "\n";
}

std::string to_yaml(const json::value& value) {
  YAML::Emitter out;
  emit(out, value);
  return std::string(out.c_str()) + "\n";
}

}  // namespace nodus::cli
