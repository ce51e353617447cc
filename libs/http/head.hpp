// The strict reading of a header block. There is one parser: what it returns is what routing, authentication
// and body framing use, so nothing can be read in two ways. Pure functions of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libs/base/error.hpp"
#include "libs/http/message.hpp"

namespace nodus::http {

enum class Framing { kNone, kLength, kChunked };

struct ParsedHead {
  std::string method;
  std::string target;
  bool http_1_0 = false;
  bool keep_alive = true;
  bool expect_continue = false;
  Framing framing = Framing::kNone;
  uint64_t length = 0;  // kLength
  Headers headers;
};

struct ParsedAnswer {
  int status = 0;
  Framing framing =
      Framing::kNone;  // kNone: no framing header; whether a body follows depends on the request
  uint64_t length = 0;
  Headers headers;
};

enum class HeadEnd { kNotYet, kFound, kMalformed };

// Looks for the empty line that ends a header block. `scanned` starts at 0 and carries the progress between
// calls on a growing buffer; with kFound it is the size of the block. A byte that no header block can hold
// is seen at once, so that a peer that speaks something else does not wait for a timeout.
HeadEnd find_head_end(std::string_view bytes, size_t& scanned);

// `block` ends with the empty line. Errors: BadRequest/MalformedRequest, BadRequest/ExpectationFailed.
Result<ParsedHead> check_header_block(std::string_view block);
Result<ParsedAnswer> check_answer_block(std::string_view block);

}  // namespace nodus::http
