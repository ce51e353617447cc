#include "libs/http/answer.hpp"

#include <fmt/format.h>
#include <strings.h>
#include <time.h>

#include <algorithm>
#include <array>

namespace nodus::http {

namespace {

std::string_view phrase(int status) {
  static constexpr auto kPhrases =
      std::to_array<std::pair<int, std::string_view>>({{100, "Continue"},
                                                       {101, "Switching Protocols"},
                                                       {200, "OK"},
                                                       {201, "Created"},
                                                       {202, "Accepted"},
                                                       {204, "No Content"},
                                                       {206, "Partial Content"},
                                                       {304, "Not Modified"},
                                                       {400, "Bad Request"},
                                                       {401, "Unauthorized"},
                                                       {402, "Payment Required"},
                                                       {403, "Forbidden"},
                                                       {404, "Not Found"},
                                                       {405, "Method Not Allowed"},
                                                       {406, "Not Acceptable"},
                                                       {408, "Request Timeout"},
                                                       {409, "Conflict"},
                                                       {410, "Gone"},
                                                       {412, "Precondition Failed"},
                                                       {413, "Content Too Large"},
                                                       {415, "Unsupported Media Type"},
                                                       {416, "Range Not Satisfiable"},
                                                       {417, "Expectation Failed"},
                                                       {422, "Unprocessable Content"},
                                                       {426, "Upgrade Required"},
                                                       {429, "Too Many Requests"},
                                                       {431, "Request Header Fields Too Large"},
                                                       {500, "Internal Server Error"},
                                                       {502, "Bad Gateway"},
                                                       {503, "Service Unavailable"},
                                                       {504, "Gateway Timeout"}});
  for (const auto& [code, text] : kPhrases)
    if (code == status) return text;
  return "Status";
}

std::string date_field() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  const size_t size = strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
  return {text, size};
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

bool is_hop_by_hop(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kNames{
      "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
      "TE",         "Trailer",    "Upgrade",          "Transfer-Encoding",  "Content-Length"};
  return std::ranges::any_of(kNames, [&](std::string_view known) { return same(known, name); });
}

bool has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

std::string write_answer_head(const AnswerHead& head, const Headers& headers) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", head.status, phrase(head.status));
  if (!headers.get("Date")) text += date_field();
  for (const auto& [name, value] : headers.all())
    if (!is_hop_by_hop(name)) text += fmt::format("{}: {}\r\n", name, value);
  if (!head.upgrade.empty()) {
    text += fmt::format("Connection: Upgrade\r\nUpgrade: {}\r\n\r\n", head.upgrade);
    return text;
  }
  if (head.length && !has_no_body(head.status)) text += fmt::format("Content-Length: {}\r\n", *head.length);
  if (head.chunked) text += "Transfer-Encoding: chunked\r\n";
  if (head.close) text += "Connection: close\r\n";
  return text + "\r\n";
}

}  // namespace nodus::http
