// What a file request asks for: ranges lie inside the file, parts add up, and any query is read or refused.
#include "services/executor/process/file_query.hpp"
#include "libs/http/target.hpp"
#include "tests/fuzz/expect.hpp"

using namespace nodus;
using namespace nodus::executor;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{1} << 40}) {
    const auto range = parse_range(text, length);
    if (range.kind == ByteRange::Kind::kPart)
      EXPECT_THAT_ALWAYS(range.length > 0 && range.offset < length && range.length <= length - range.offset);
  }
  if (const auto part = parse_content_range(text)) {
    EXPECT_THAT_ALWAYS(part->bare == (part->length == 0));
    EXPECT_THAT_ALWAYS(!part->total || part->offset + part->length <= *part->total);
  }
  if (const auto seconds = parse_http_date(text); seconds && std::abs(*seconds) < 9'000'000'000)
    EXPECT_THAT_ALWAYS(parse_http_date(http_date(*seconds * 1'000'000'000)) == seconds);
  (void)helper::names_etag(text, "\"1\"");
  http::Request request;
  request.headers.set("If-Match", text);
  const auto target = http::parse_target("/files?" + text);
  if (!target) return 0;
  request.query = target->query;
  for (const char* method : {"GET", "PUT", "DELETE"}) {
    request.method = method;
    const auto query = parse_file_query(request);
    if (query) EXPECT_THAT_ALWAYS(query->options.path.starts_with('/') && query->options.path.size() <= 4095);
    if (!query) EXPECT_THAT_ALWAYS(!query.error().causes.empty());
  }
  return 0;
}
