// Writes the head of an answer, and the head of a request to another server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libs/http/message.hpp"

namespace nodus::http {

// Framing belongs to the server: Content-Length, Transfer-Encoding and the hop-by-hop fields of `headers` are
// left out.
struct AnswerHead {
  int status = 200;
  std::optional<uint64_t> length;  // Content-Length
  bool chunked = false;
  bool close = false;
  std::string upgrade;  // of a 101
};
std::string write_answer_head(const AnswerHead& head, const Headers& headers);

bool is_hop_by_hop(std::string_view name);
bool has_no_body(int status);  // 1xx, 204, 304

}  // namespace nodus::http
