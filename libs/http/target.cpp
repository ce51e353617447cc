#include "libs/http/target.hpp"

#include <algorithm>
#include <optional>

#include "libs/base/utf8.hpp"

namespace nodus::http {

namespace {

constexpr size_t kMaxParameters = 1'500;  // a command line of 1,024 words and its 256 variables

std::unexpected<Error> malformed(std::string message) {
  return fail(Code::kBadRequest, "MalformedRequest", std::move(message));
}

bool is_unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

bool is_path_char(char c) {
  static constexpr std::string_view kMarks = "!$&'()*+,;=:@%";
  return is_unreserved(c) || kMarks.find(c) != std::string_view::npos;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> unescape(std::string_view text, bool plus_is_space) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '+' && plus_is_space) {
      plain += ' ';
    } else if (text[at] != '%') {
      plain += text[at];
    } else {
      if (at + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[at + 1]), low = hex_digit(text[at + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      plain += static_cast<char>(high * 16 + low);
      at += 2;
    }
  }
  return plain;
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

Result<void> read_path(std::string_view path, ParsedTarget& parsed) {
  if (path.empty() || path.front() != '/')
    return malformed("The request target does not begin with a slash.");
  path.remove_prefix(1);
  // One slash at the end means nothing: Kubernetes' clients ask for "/apis/".
  if (path.ends_with("//")) return malformed("The path has an empty segment.");
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view raw = path.substr(0, slash);
    if (!std::ranges::all_of(raw, is_path_char)) return malformed("The path has an invalid character.");
    const auto segment = unescape(raw, false);
    if (!segment) return malformed("The path has a broken escape.");
    if (segment->empty()) return malformed("The path has an empty segment.");
    if (*segment == "." || *segment == "..") return malformed("The path has a dot segment.");
    if (has_control(*segment) || segment->find_first_of("/\\") != std::string::npos)
      return malformed("The path has an escaped slash or control character.");
    if (!valid_utf8(*segment)) return malformed("The path is not UTF-8.");
    parsed.segments.push_back(*segment);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return {};
}

Result<void> read_query(std::string_view query, ParsedTarget& parsed) {
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view item = query.substr(0, end);
    query = end == std::string_view::npos ? "" : query.substr(end + 1);
    if (item.empty()) continue;
    if (parsed.query.size() >= kMaxParameters)
      return malformed("There are more than 1,500 query parameters.");
    const size_t equals = item.find('=');
    const auto name = unescape(item.substr(0, equals), true);
    const auto value = unescape(equals == std::string_view::npos ? "" : item.substr(equals + 1), true);
    if (!name || !value) return malformed("The query has a broken escape.");
    if (name->find('\0') != std::string::npos || value->find('\0') != std::string::npos)
      return malformed("The query has a NUL.");
    // The name of a file may be any bytes.
    if (!valid_utf8(*name) || (*name != "path" && !valid_utf8(*value)))
      return malformed("The query is not UTF-8.");
    parsed.query.emplace(*name, *value);
  }
  return {};
}

}  // namespace

Result<ParsedTarget> parse_target(std::string_view target) {
  if (!std::ranges::all_of(target, [](char c) { return c > 0x20 && c < 0x7f && c != '#'; }))
    return malformed("The request target has an invalid character.");
  const size_t question = target.find('?');
  ParsedTarget parsed;
  if (auto path = read_path(target.substr(0, question), parsed); !path) return std::unexpected(path.error());
  if (question != std::string_view::npos)
    if (auto query = read_query(target.substr(question + 1), parsed); !query)
      return std::unexpected(query.error());
  return parsed;
}

std::string escape(std::string_view text, bool keep_slashes) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    if (is_unreserved(c) || (c == '/' && keep_slashes)) {
      escaped += c;
    } else {
      escaped += '%';
      escaped += kDigits[static_cast<unsigned char>(c) >> 4];
      escaped += kDigits[static_cast<unsigned char>(c) & 15];
    }
  }
  return escaped;
}

}  // namespace nodus::http
