#include "services/lifecycle/adapters/exec_sinks.hpp"

#include <boost/json.hpp>

#include "libs/base/random.hpp"
#include "services/lifecycle/adapters/render.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {
constexpr const char* kFrames = "application/x-ndjson";
constexpr const char* kBytes = "application/octet-stream";
constexpr const char* kJson = "application/json";

// Bytes of the UTF-8 character at the front; 0: it is none.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : size;
}
}  // namespace

std::string text_of(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t size = character(bytes);
    out += size > 0 ? bytes.substr(0, size) : std::string_view("\xef\xbf\xbd");
    bytes.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

awaitable<bool> AnswerSink::send(std::string_view bytes, const char* content_type) {
  if (!begun_) {
    begun_ = true;
    http::Headers headers;
    headers.set("Content-Type", content_type);
    headers.set("Cache-Control", "no-store");
    headers.set("X-Content-Type-Options", "nosniff");
    headers.set("X-Accel-Buffering", "no");  // frames are for now, not for when a proxy's buffer is full
    headers.set("X-Nodus-Process", name_);
    if (!co_await exchange_.begin(200, std::move(headers))) co_return false;
  }
  co_return bytes.empty() || (co_await exchange_.write(bytes)).has_value();
}

awaitable<void> AnswerSink::finish(std::string_view bytes, const char* content_type) {
  if (co_await send(bytes, content_type)) co_await exchange_.finish();
}

awaitable<bool> FrameSink::begun() {
  co_return co_await send("", kFrames);
}

awaitable<bool> FrameSink::frames(std::span<const OutputFrame> frames) {
  std::string lines;
  for (const auto& frame : frames)
    if (stream_ == 0 || frame.stream == stream_) lines += frame_line(frame);
  co_return co_await send(lines, kFrames);
}

awaitable<bool> FrameSink::quiet() {
  co_return co_await send("{}\n", kFrames);
}

awaitable<void> FrameSink::end(const std::optional<StreamEnd>& end) {
  co_await finish(end ? end_line(*end, name_) : "", kFrames);
}

awaitable<bool> BytesSink::begun() {
  co_return co_await send("", kBytes);
}

awaitable<bool> BytesSink::frames(std::span<const OutputFrame> frames) {
  std::string bytes;
  for (const auto& frame : frames)
    if (stream_ == 0 || frame.stream == stream_) bytes += frame.data;
  co_return co_await send(bytes, kBytes);
}

awaitable<bool> BytesSink::quiet() {
  co_return co_await send("", kBytes);
}

awaitable<void> BytesSink::end(const std::optional<StreamEnd>&) {
  co_await finish("", kBytes);
}

awaitable<bool> ResultSink::begun() {
  co_return true;  // nothing is said before the result, so that proxies and clients see one answer
}

awaitable<bool> ResultSink::frames(std::span<const OutputFrame> frames) {
  for (const auto& frame : frames) {
    const size_t room = limit_ - std::min(limit_, kept_[0].size() + kept_[1].size());
    kept_[frame.stream - 1] += std::string_view(frame.data).substr(0, room);
    written_[frame.stream - 1] += frame.data.size();
  }
  co_return true;
}

awaitable<bool> ResultSink::quiet() {
  co_return co_await send(" ", kJson);
}

awaitable<void> ResultSink::end(const std::optional<StreamEnd>& end) {
  if (!end) co_return;  // the answer breaks off
  const auto text = [&](int i) { return base64_ ? to_base64(kept_[i]) : text_of(kept_[i]); };
  const bool truncated = kept_[0].size() < written_[0] || kept_[1].size() < written_[1];
  json::object result{
      {"process", name_},           {"reason", end->reason},      {"exitCode", end->exit_code},
      {"message", end->message},    {"stdout", text(0)},          {"stderr", text(1)},
      {"stdoutBytes", written_[0]}, {"stderrBytes", written_[1]}, {"truncated", truncated}};
  if (base64_) result["encoding"] = "base64";
  co_await finish(json::serialize(result) + "\n", kJson);
}

}  // namespace nodus::lifecycle
