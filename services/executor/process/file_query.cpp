#include "services/executor/process/file_query.hpp"

#include <fmt/format.h>
#include <strings.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "services/executor/process/exec_request.hpp"

namespace nodus::executor {
namespace {
constexpr size_t kMaxPath = 4095;
constexpr uint32_t kMaxPage = 10'000;
constexpr int64_t kSecond = 1'000'000'000;

// Digits only; saturates.
std::optional<uint64_t> parse_count(std::string_view text) {
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    const auto digit = static_cast<uint64_t>(c - '0');
    if (value > (std::numeric_limits<uint64_t>::max() - digit) / 10)
      return std::numeric_limits<uint64_t>::max();
    value = value * 10 + digit;
  }
  return value;
}

std::optional<uint32_t> parse_mode(std::string_view text) {
  if (text.empty() || text.size() > 4 ||
      !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '7'; }))
    return std::nullopt;
  uint32_t mode = 0;
  for (const char c : text) mode = mode * 8 + static_cast<uint32_t>(c - '0');
  return mode <= 0777 ? std::optional(mode) : std::nullopt;
}

// Seconds since 1970, with up to nine decimals.
std::optional<int64_t> parse_mtime(std::string_view text) {
  const size_t point = text.find('.');
  const auto seconds = parse_count(text.substr(0, point));
  if (!seconds || *seconds > 253'402'300'799) return std::nullopt;  // year 9999
  int64_t ns = static_cast<int64_t>(std::min<uint64_t>(*seconds, 9'000'000'000)) * kSecond;
  if (point == text.npos) return ns;
  const auto decimals = text.substr(point + 1);
  const auto fraction = parse_count(decimals);
  if (!fraction || decimals.size() > 9) return std::nullopt;
  int64_t part = static_cast<int64_t>(*fraction);
  for (size_t i = decimals.size(); i < 9; ++i) part *= 10;
  return ns + part;
}

bool is_upload_name(std::string_view text) {
  return text.size() >= 8 && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                  c == '_';
         });
}

std::optional<std::string> from_hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    const size_t high = kDigits.find(text[i]), low = kDigits.find(text[i + 1]);
    if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return text.size() % 2 == 0 ? std::optional(bytes) : std::nullopt;
}

class Reading {
 public:
  Reading(const http::Request& request, FileQuery& query) : request_(request), query_(query) {}
  Result<void> run();

 private:
  void fault(std::string field, std::string message, std::string reason = "FieldValueInvalid") {
    causes_.push_back({std::move(field), std::move(reason), std::move(message)});
  }
  std::optional<std::string> take(const std::string& name) {
    known_.insert(name);
    return request_.query_value(name);
  }
  bool flag(const std::string& name) {
    const auto text = take(name);
    if (!text || *text == "false" || *text == "0") return false;
    if (*text != "true" && *text != "1") fault(name, "true or false.");
    return true;
  }
  std::string sha256(const std::string& name) {
    const auto text = take(name);
    if (text && !valid_sha256(*text)) fault(name, "64 lowercase hex digits.");
    return text.value_or("");
  }
  void read_path();
  void read_get();
  void read_put();
  const http::Request& request_;
  FileQuery& query_;
  std::vector<Cause> causes_;
  std::set<std::string> known_;
};

void Reading::read_path() {
  const auto path = take("path");
  if (!path || path->empty() || path->front() != '/' || path->size() > kMaxPath)
    fault("path", "An absolute path of at most 4,095 bytes.",
          path ? "FieldValueInvalid" : "FieldValueRequired");
  query_.options.path = path.value_or("");
  const auto upload = take("upload");
  if (upload && !is_upload_name(*upload))
    fault("upload", "A name that you choose: 8 to 64 letters, digits, \"-\" and \"_\".");
  query_.upload = upload.value_or("");
}

void Reading::read_get() {
  query_.list = flag("list");
  query_.stat = flag("stat");
  query_.follow = flag("follow");
  if (query_.list + query_.stat + !query_.upload.empty() > 1) fault("list", "One of list, stat and upload.");
  if (const auto text = take("limit")) {
    const auto limit = parse_count(*text);
    if (!limit || *limit < 1 || *limit > kMaxPage) fault("limit", "A number from 1 to 10000.");
    query_.limit = static_cast<uint32_t>(std::min<uint64_t>(limit.value_or(1), kMaxPage));
  }
  if (const auto token = take("continue"); token && !token->empty()) {
    const auto name = token->size() <= 510 ? from_hex(*token) : std::nullopt;
    if (!name) fault("continue", "What metadata.continue of the page before says.");
    query_.after = name.value_or("");
  }
}

void Reading::read_put() {
  PutOptions& options = query_.options;
  options.expected_sha256 = sha256("expectedSHA256");
  query_.content_sha256 = sha256("contentSHA256");
  const auto mode = take("mode"), set_mode = take("setMode");
  if (mode && set_mode) fault("mode", "One of mode (of a new file) and setMode (of any).");
  for (const auto& [text, name, flag] :
       {std::tuple{&mode, "mode", helper::kModeIfNew}, {&set_mode, "setMode", helper::kModeAlways}}) {
    if (!*text) continue;
    const auto value = parse_mode(**text);
    if (!value) fault(name, "Octal permission bits such as 0644, at most 0777.");
    options.mode = value.value_or(0);
    options.flags |= flag;
  }
  if (const auto text = take("mtime")) {
    const auto value = parse_mtime(*text);
    if (!value) fault("mtime", "Seconds since 1970, with up to nine decimals.");
    options.mtime_ns = value.value_or(0);
    options.flags |= helper::kSetMtime;
  }
  query_.type = take("type").value_or("file");
  const auto target = take("target");
  query_.target = target.value_or("");
  if (query_.type != "file" && query_.type != "directory" && query_.type != "symlink")
    fault("type", "file, directory or symlink.");
  if (target.has_value() != (query_.type == "symlink") ||
      (target && (target->empty() || target->size() > kMaxPath)))
    fault("target", "What a symlink points to, with type=symlink only; at most 4,095 bytes.");
  if (query_.type != "file" && (!options.expected_sha256.empty() || !query_.upload.empty()))
    fault("type", "expectedSHA256 and upload are for files.");
  options.if_match = request_.headers.get("If-Match").value_or("");
  if (const auto none = request_.headers.get("If-None-Match")) {
    if (*none != "*") fault("If-None-Match", "With PUT: *, which means \"create only\".");
    options.flags |= helper::kMustNotExist;
  }
}

Result<void> Reading::run() {
  read_path();
  if (request_.method == "PUT") {
    read_put();
  } else if (request_.method == "DELETE") {
    query_.options.if_match = request_.headers.get("If-Match").value_or("");
  } else {
    read_get();
  }
  for (auto item = request_.query.begin(); item != request_.query.end();
       item = request_.query.upper_bound(item->first)) {
    const std::string name = item->first.substr(0, 128);
    if (!known_.contains(item->first)) fault(name, "There is no such parameter here.", "FieldValueForbidden");
    if (request_.query.count(item->first) > 1) fault(name, "Given more than once.", "FieldValueDuplicate");
  }
  if (causes_.empty()) return {};
  Error error{Code::kInvalid, "Invalid", "", std::move(causes_), {}, {}};
  error.message = error.causes.front().field + ": " + error.causes.front().message;
  return std::unexpected(std::move(error));
}

constexpr std::string_view kUnit = "bytes";
}  // namespace

Result<FileQuery> parse_file_query(const http::Request& request) {
  FileQuery query;
  if (auto read = Reading(request, query).run(); !read) return std::unexpected(read.error());
  return query;
}

ByteRange parse_range(std::string_view header, uint64_t size) {
  const size_t equals = header.find('=');
  if (equals != kUnit.size() || strncasecmp(header.data(), kUnit.data(), equals) != 0) return {};
  auto spec = header.substr(equals + 1);
  while (!spec.empty() && spec.front() == ' ') spec.remove_prefix(1);
  while (!spec.empty() && spec.back() == ' ') spec.remove_suffix(1);
  const size_t dash = spec.find('-');
  if (dash == spec.npos || spec.find(',') != spec.npos) return {};
  const auto first = parse_count(spec.substr(0, dash)), last = parse_count(spec.substr(dash + 1));
  using Kind = ByteRange::Kind;
  if (dash == 0) {  // the last so many
    if (!last || (size == 0 && *last > 0)) return {};
    if (*last == 0) return {Kind::kUnsatisfiable};
    const uint64_t length = std::min(*last, size);
    return {Kind::kPart, size - length, length};
  }
  if (!first || (dash + 1 < spec.size() && (!last || *last < *first))) return {};
  if (*first >= size) return {Kind::kUnsatisfiable};
  const uint64_t end = last ? std::min(*last, size - 1) : size - 1;
  return {Kind::kPart, *first, end - *first + 1};
}

std::optional<PartRange> parse_content_range(std::string_view header) {
  if (header.size() <= kUnit.size() || strncasecmp(header.data(), kUnit.data(), kUnit.size()) != 0 ||
      header[kUnit.size()] != ' ')
    return std::nullopt;
  header.remove_prefix(kUnit.size() + 1);
  const size_t slash = header.find('/');
  if (slash == header.npos) return std::nullopt;
  const auto span = header.substr(0, slash), whole = header.substr(slash + 1);
  PartRange range;
  if (whole != "*" && !(range.total = parse_count(whole))) return std::nullopt;
  if (span == "*") {
    if (!range.total) return std::nullopt;
    range.bare = true;
    range.offset = *range.total;
    return range;
  }
  const size_t dash = span.find('-');
  if (dash == span.npos) return std::nullopt;
  const auto first = parse_count(span.substr(0, dash)), last = parse_count(span.substr(dash + 1));
  constexpr uint64_t kMost = 1ull << 62;
  if (!first || !last || *last < *first || *last >= kMost || (range.total && *range.total <= *last))
    return std::nullopt;
  range.offset = *first;
  range.length = *last - *first + 1;
  return range;
}

std::string http_date(int64_t ns) {
  const time_t seconds = ns / kSecond - (ns % kSecond < 0);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  return {text, strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

std::optional<int64_t> parse_http_date(std::string_view text) {
  const std::string copy(text);
  tm parts{};
  const char* end = strptime(copy.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (!end || *end) return std::nullopt;
  return timegm(&parts);
}

std::string rfc3339(int64_t ns) {
  int64_t seconds = ns / kSecond, rest = ns % kSecond;
  if (rest < 0) --seconds, rest += kSecond;
  tm parts{};
  const auto at = static_cast<time_t>(seconds);
  gmtime_r(&at, &parts);
  char text[64];
  const size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:09}Z", std::string_view(text, size), rest);
}

}  // namespace nodus::executor
