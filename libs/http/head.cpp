#include "libs/http/head.hpp"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>

#include "libs/base/utf8.hpp"

namespace nodus::http {

namespace {

constexpr size_t kMaxFields = 100;
constexpr size_t kMaxLengthDigits = 18;

std::unexpected<Error> malformed(std::string message) {
  return fail(Code::kBadRequest, "MalformedRequest", std::move(message));
}

bool is_token(std::string_view text) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool is_value(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

bool is_host(std::string_view text) {
  static constexpr std::string_view kMarks = "-._~!$&'()*+,;=:[]%";
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Takes a line and its CRLF off the front.
std::string_view take_line(std::string_view& block) {
  const size_t end = block.find("\r\n");
  const std::string_view line = block.substr(0, end);
  block.remove_prefix(end == std::string_view::npos ? block.size() : end + 2);
  return line;
}

// Two of these would leave open which one counts.
bool is_single(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kSingle{
      "Host",   "Content-Length",  "Transfer-Encoding", "Authorization",   "Content-Type",
      "Expect", "Idempotency-Key", "X-Nodus-Identity",  "Content-Encoding"};
  return std::ranges::any_of(kSingle, [&](std::string_view single) { return same(single, name); });
}

Result<Headers> read_fields(std::string_view block) {
  Headers headers;
  while (true) {
    const std::string_view line = take_line(block);
    if (line.empty()) break;
    if (headers.all().size() >= kMaxFields) return malformed("There are more than 100 header fields.");
    if (line.front() == ' ' || line.front() == '\t')
      return malformed("A header field is folded over two lines.");
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return malformed("A header line has no colon.");
    const std::string_view name = line.substr(0, colon);
    if (!is_token(name)) return malformed("The name of a header field has an invalid character.");
    const std::string_view value = trim(line.substr(colon + 1));
    if (!is_value(value) || (same(name, "Idempotency-Key") && !valid_utf8(value)))  // it is kept as text
      return malformed(fmt::format("The header field {} has an invalid character.", name));
    if (is_single(name) && headers.get(name))
      return malformed(fmt::format("The header field {} is given twice.", name));
    headers.add(name, value);
  }
  if (!block.empty()) return malformed("The header block goes on after its end.");
  return headers;
}

// Sets framing and length from Transfer-Encoding and Content-Length.
template <class Head>
Result<void> read_framing(Head& head, bool http_1_0) {
  const auto encoding = head.headers.get("Transfer-Encoding");
  const auto length = head.headers.get("Content-Length");
  if (encoding) {
    if (http_1_0) return malformed("Transfer-Encoding does not exist in HTTP/1.0.");
    if (length) return malformed("There is a Content-Length besides Transfer-Encoding.");
    if (!same(*encoding, "chunked")) return malformed("The only Transfer-Encoding is chunked.");
    head.framing = Framing::kChunked;
  } else if (length) {
    if (length->empty() || length->size() > kMaxLengthDigits ||
        !std::ranges::all_of(*length, [](char c) { return c >= '0' && c <= '9'; }))
      return malformed("Content-Length is not a number.");
    for (const char c : *length) head.length = head.length * 10 + static_cast<uint64_t>(c - '0');
    head.framing = Framing::kLength;
  }
  return {};
}

bool has_option(const Headers& headers, std::string_view name, std::string_view option) {
  for (const auto& [key, value] : headers.all()) {
    if (!same(key, name)) continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      if (same(trim(rest.substr(0, comma)), option)) return true;
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    }
  }
  return false;
}

Result<void> read_request_line(std::string_view line, ParsedHead& head) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return malformed("The request line is not METHOD TARGET VERSION.");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (head.method.empty() || head.method.size() > 20 ||
      !std::ranges::all_of(head.method, [](char c) { return c >= 'A' && c <= 'Z'; }))
    return malformed("The method is not a word of capital letters.");
  if (head.target.empty() || !std::ranges::all_of(head.target, [](char c) { return c > 0x20 && c < 0x7f; }))
    return malformed("The request target has an invalid character.");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return malformed("The version is not HTTP/1.1 or HTTP/1.0.");
  head.http_1_0 = version == "HTTP/1.0";
  return {};
}

}  // namespace

HeadEnd find_head_end(std::string_view bytes, size_t& scanned) {
  for (; scanned < bytes.size(); ++scanned) {
    const auto byte = static_cast<unsigned char>(bytes[scanned]);
    if (byte == '\n') {
      if (scanned == 0 || bytes[scanned - 1] != '\r') return HeadEnd::kMalformed;
      if (scanned == 1) return HeadEnd::kMalformed;  // an empty line instead of a request line
      if (scanned >= 3 && bytes[scanned - 2] == '\n') {
        ++scanned;
        return HeadEnd::kFound;
      }
    } else if (scanned > 0 && bytes[scanned - 1] == '\r') {
      return HeadEnd::kMalformed;
    } else if ((byte < 0x20 && byte != '\t' && byte != '\r') || byte == 0x7f) {
      return HeadEnd::kMalformed;
    }
  }
  return HeadEnd::kNotYet;
}

Result<ParsedHead> check_header_block(std::string_view block) {
  size_t scanned = 0;
  if (find_head_end(block, scanned) != HeadEnd::kFound || scanned != block.size())
    return malformed("The header block is not lines that end with CRLF, and one empty line.");
  ParsedHead head;
  if (auto line = read_request_line(take_line(block), head); !line) return std::unexpected(line.error());
  auto headers = read_fields(block);
  if (!headers) return std::unexpected(headers.error());
  head.headers = std::move(*headers);
  const auto host = head.headers.get("Host");
  if (!host) return malformed("There is no Host.");
  if (!is_host(*host)) return malformed("Host is not a host name.");
  if (auto framing = read_framing(head, head.http_1_0); !framing) return std::unexpected(framing.error());
  if (const auto expect = head.headers.get("Expect")) {
    if (!same(*expect, "100-continue"))
      return fail(Code::kBadRequest, "ExpectationFailed", "The only Expect is 100-continue.");
    head.expect_continue = !head.http_1_0 && head.framing != Framing::kNone &&
                           !(head.framing == Framing::kLength && head.length == 0);
  }
  head.keep_alive = !head.http_1_0 && !has_option(head.headers, "Connection", "close");
  return head;
}

Result<ParsedAnswer> check_answer_block(std::string_view block) {
  size_t scanned = 0;
  if (find_head_end(block, scanned) != HeadEnd::kFound || scanned != block.size())
    return malformed("The header block is not lines that end with CRLF, and one empty line.");
  const std::string_view line = take_line(block);
  const bool right = line.size() >= 12 && (line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ")) &&
                     std::ranges::all_of(line.substr(9, 3), [](char c) { return c >= '0' && c <= '9'; }) &&
                     (line.size() == 12 || line[12] == ' ');
  if (!right) return malformed("The status line is not VERSION CODE REASON.");
  ParsedAnswer answer;
  answer.status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  if (answer.status < 100) return malformed("The status code is below 100.");
  auto headers = read_fields(block);
  if (!headers) return std::unexpected(headers.error());
  answer.headers = std::move(*headers);
  if (auto framing = read_framing(answer, line.starts_with("HTTP/1.0 ")); !framing)
    return std::unexpected(framing.error());
  return answer;
}

}  // namespace nodus::http
