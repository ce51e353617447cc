// The header check and the chunked decoder: the same bytes mean the same, however they are cut.
#include "libs/http/head.hpp"
#include "libs/http/chunked.hpp"
#include "tests/fuzz/expect.hpp"

using namespace nodus::http;

static std::string decode(std::string_view input, size_t step, bool& malformed, bool& done, size_t& taken) {
  ChunkDecoder decoder;
  std::string body;
  taken = 0;
  while (taken < input.size() && !decoder.done() && !decoder.malformed()) {
    const auto part = input.substr(taken, step);
    size_t used = 0;
    while (used < part.size() && !decoder.done() && !decoder.malformed())
      used += decoder.feed(part.substr(used), body, body.size() + 64);
    taken += used;
  }
  malformed = decoder.malformed(), done = decoder.done();
  return body;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  size_t whole = 0, step = 0;
  const HeadEnd end = find_head_end(bytes, whole);
  HeadEnd grown = HeadEnd::kNotYet;
  for (size_t have = 0; have <= bytes.size() && grown == HeadEnd::kNotYet; ++have)
    grown = find_head_end(bytes.substr(0, have), step);
  EXPECT_THAT_ALWAYS(grown == end);
  if (end == HeadEnd::kFound) {
    EXPECT_THAT_ALWAYS(whole == step);
    const auto block = bytes.substr(0, whole);
    if (const auto head = check_header_block(block)) {
      EXPECT_THAT_ALWAYS(!head->method.empty() && head->target.find_first_of(" \r\n\t") == std::string::npos);
      EXPECT_THAT_ALWAYS(head->headers.get("Host"));
      EXPECT_THAT_ALWAYS(head->framing == Framing::kNone ||
                         !(head->headers.get("Content-Length") && head->headers.get("Transfer-Encoding")));
      for (const auto& [name, value] : head->headers.all())
        EXPECT_THAT_ALWAYS(name.find_first_of(": \r\n") == std::string::npos &&
                           value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    }
    (void)check_answer_block(block);
  }
  bool malformed[2], done[2];
  size_t taken[2];
  const std::string one = decode(bytes, 1, malformed[0], done[0], taken[0]);
  const std::string all = decode(bytes, bytes.size() + 1, malformed[1], done[1], taken[1]);
  EXPECT_THAT_ALWAYS(malformed[0] == malformed[1] && done[0] == done[1]);
  if (done[0]) EXPECT_THAT_ALWAYS(one == all && taken[0] == taken[1]);
  return 0;
}
