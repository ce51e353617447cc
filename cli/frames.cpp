#include "cli/frames.hpp"

#include <boost/json/parse.hpp>

#include "libs/base/random.hpp"

namespace nodus::cli {

namespace json = boost::json;

namespace {
constexpr size_t kMaxLine = 4 * 1024 * 1024;

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}
}  // namespace

void Frames::begin() {
  line_.clear();
}

bool Frames::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    line_ += bytes.substr(0, newline);
    if (line_.size() > kMaxLine) return false;
    if (newline == std::string_view::npos) return true;
    bytes.remove_prefix(newline + 1);
    const bool right = take(line_);
    line_.clear();
    if (!right) return false;
  }
  return true;
}

bool Frames::take(std::string_view line) {
  if (line.empty()) return true;
  boost::system::error_code fault;
  const json::value value = json::parse(line, fault);
  if (fault || !value.is_object()) return false;
  const json::object& frame = value.get_object();
  if (const json::value* ended = frame.if_contains("end"); ended && ended->is_object()) {
    End end{text_of(ended->get_object(), "reason"), 0, text_of(ended->get_object(), "message"),
            text_of(frame, "process")};
    if (const json::value* code = ended->get_object().if_contains("exitCode"); code && code->is_int64())
      end.exit_code = static_cast<int>(code->get_int64() & 0xffff);
    end_ = end;
    return true;
  }
  const std::string stream = text_of(frame, "stream");
  if (stream != "stdout" && stream != "stderr") return true;  // a keep-alive, or a kind of a later server
  const json::value* at = frame.if_contains("offset");
  std::string data;
  if (!at || !at->is_int64() || at->get_int64() < 0 || !from_base64(text_of(frame, "data"), data))
    return false;
  const auto offset = static_cast<uint64_t>(at->get_int64());
  if (offset + data.size() <= offset_) return true;  // seen before
  std::string_view fresh = data;
  if (offset < offset_) {
    fresh.remove_prefix(offset_ - offset);
  } else {
    missing_ += offset - offset_;
  }
  offset_ = offset + data.size();
  sink_(stream == "stderr", fresh);
  return true;
}

int exit_code_of(const End& end) {
  if (end.exit_code >= 1 && end.exit_code <= 255) return end.exit_code;
  if (end.reason.empty()) return end.exit_code & 255;
  if (end.reason == "StartFailed") return 127;
  return end.reason == "DeadlineExceeded" ? 124 : 1;
}

}  // namespace nodus::cli
