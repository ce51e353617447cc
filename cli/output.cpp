#include "cli/output.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>

namespace nodus::cli {

namespace json = boost::json;

namespace {

std::string or_dash(std::string text) {
  return text.empty() ? "-" : text;
}

const json::value* find(const json::value& value, std::string_view path) {
  const json::value* at = &value;
  while (at && !path.empty()) {
    const size_t dot = path.find('.');
    at = at->is_object() ? at->get_object().if_contains(path.substr(0, dot)) : nullptr;
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return at;
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

std::string text_at(const json::value& value, std::string_view path) {
  const json::value* found = find(value, path);
  if (!found || found->is_null()) return "";
  return found->is_string() ? std::string(found->get_string()) : json::serialize(*found);
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}", row[i], widths[i] + 3);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
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

std::string sandbox_table(const std::vector<json::value>& sandboxes, Instant now) {
  std::vector<std::vector<std::string>> rows{
      {"NAME", "PHASE", "ACTIVITY", "CPU", "MEMORY", "GPU", "COST", "AGE"}};
  for (const json::value& sandbox : sandboxes)
    rows.push_back(
        {text_at(sandbox, "metadata.name"), or_dash(text_at(sandbox, "status.phase")),
         or_dash(text_at(sandbox, "status.activity")), or_dash(text_at(sandbox, "spec.resources.cpu")),
         or_dash(text_at(sandbox, "spec.resources.memory")), or_dash(text_at(sandbox, "spec.resources.gpu")),
         format_cost(text_at(sandbox, "status.cost")), age_of(sandbox, now)});
  return format_table(rows);
}

std::string process_table(const std::vector<json::value>& processes, Instant now) {
  std::vector<std::vector<std::string>> rows{
      {"NAME", "SANDBOX", "PHASE", "REASON", "EXIT", "AGE", "COMMAND"}};
  for (const json::value& process : processes) {
    std::string command;
    if (const json::value* words = find(process, "spec.command"); words && words->is_array())
      for (const json::value& word : words->get_array())
        command += (command.empty() ? "" : " ") +
                   (word.is_string() ? std::string(word.get_string()) : json::serialize(word));
    // One line, and nothing that moves a terminal's cursor.
    for (char& c : command)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    if (command.size() > 60) command = command.substr(0, 57) + "...";
    rows.push_back({text_at(process, "metadata.name"), text_at(process, "spec.sandbox"),
                    text_at(process, "status.phase"), or_dash(text_at(process, "status.reason")),
                    or_dash(text_at(process, "status.exitCode")), age_of(process, now), command});
  }
  return format_table(rows);
}

std::string bill_table(const json::value& bill) {
  std::vector<std::vector<std::string>> rows{{"SANDBOX", "KIND", "FROM", "TO", "SECONDS", "RATE", "AMOUNT"}};
  if (const json::value* lines = find(bill, "lines"); lines && lines->is_array())
    for (const json::value& line : lines->get_array()) {
      const bool waived = text_at(line, "waived") == "true";
      rows.push_back({text_at(line, "sandbox"), text_at(line, "kind"), text_at(line, "from"),
                      or_dash(text_at(line, "to")), text_at(line, "seconds"), text_at(line, "rate"),
                      text_at(line, "amount") + (waived ? " (waived)" : "")});
    }
  return format_table(rows) + "\n" +
         format_table(
             {{"TOTAL", or_dash(text_at(bill, "total"))}, {"BALANCE", or_dash(text_at(bill, "balance"))}});
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
