// The query and the header fields of a file request, read once and checked whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libs/http/message.hpp"
#include "services/executor/process/file_stream.hpp"

namespace nodus::executor {

struct FileQuery {
  PutOptions options;  // path and, for PUT, everything else
  bool list = false, stat = false, follow = false;
  uint32_t limit = 1000;       // of a page
  std::string after;           // the last name of the page before
  std::string upload;          // the caller's name of an upload by parts
  std::string content_sha256;  // of the body, or of the whole upload
  std::string type;            // of a PUT: file, directory or symlink
  std::string target;          // of a symlink
};

// Every fault at once, with its parameter. What the method does not know is refused: a misspelt
// expectedSHA256 must not overwrite somebody's change.
Result<FileQuery> parse_file_query(const http::Request& request);

// Range of RFC 9110, one range of bytes. Anything else counts as absent, as the RFC allows.
struct ByteRange {
  enum class Kind { kAbsent, kPart, kUnsatisfiable } kind = Kind::kAbsent;
  uint64_t offset = 0, length = 0;
};
ByteRange parse_range(std::string_view header, uint64_t size);

// Content-Range of a part of an upload: "bytes 0-99/1000", "bytes 0-99/*", "bytes */1000" (no bytes, the
// end).
struct PartRange {
  uint64_t offset = 0, length = 0;
  std::optional<uint64_t> total;
  bool bare = false;  // the last form
};
std::optional<PartRange> parse_content_range(std::string_view header);

std::string http_date(int64_t ns);                              // Last-Modified
std::optional<int64_t> parse_http_date(std::string_view text);  // seconds
std::string rfc3339(int64_t ns);                                // with nanoseconds

}  // namespace nodus::executor
