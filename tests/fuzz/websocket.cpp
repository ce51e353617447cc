// WebSocket frames: the same bytes are the same events, however they are cut, and no message passes the
// limit.
#include "libs/http/websocket_frame.hpp"
#include "tests/fuzz/expect.hpp"

using namespace nodus::http::websocket;

static constexpr size_t kLimit = 1000;

static std::string read_all(std::string_view bytes, size_t step, bool masked) {
  Decoder decoder(masked, kLimit);
  std::string told;
  while (!bytes.empty() && !decoder.fault()) {
    auto part = bytes.substr(0, step);
    bytes.remove_prefix(part.size());
    while (!decoder.fault()) {
      const auto event = decoder.next(part);
      if (!event) break;
      EXPECT_THAT_ALWAYS(event->payload.size() <= kLimit && event->opcode != Opcode::kContinuation);
      told += std::to_string(static_cast<int>(event->opcode)) + ":" + std::to_string(event->code) + ":" +
              event->payload + ";";
    }
  }
  return told + std::to_string(decoder.fault());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool masked : {true, false})
    EXPECT_THAT_ALWAYS(read_all(bytes, 1, masked) == read_all(bytes, size + 1, masked));
  if (size < 5) return 0;
  // What we write we read.
  const auto frame = encode_frame(Opcode::kBinary, bytes.substr(4, kLimit), bytes.substr(0, 4));
  std::string_view rest = frame;
  const auto event = Decoder(true, kLimit).next(rest);
  EXPECT_THAT_ALWAYS(event && event->payload == bytes.substr(4, kLimit) && rest.empty());
  return 0;
}
