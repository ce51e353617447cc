// RFC 6455 without sockets: the opening handshake as a check of headers, and frames as a decoder of bytes.
// Pure functions of what arrived. The first fault is final and carries the close code that says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/error.hpp"
#include "libs/http/message.hpp"

namespace nodus::http::websocket {

enum class Opcode : uint8_t { kContinuation = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };

enum CloseCode : uint16_t {
  kNormal = 1000,
  kGoingAway = 1001,
  kProtocolError = 1002,
  kNoStatus = 1005,  // never on the wire: the peer's close had no code
  kBadText = 1007,
  kTooBig = 1009,
  kInternalError = 1011,
};

inline constexpr size_t kControlBytes = 125;  // most of a ping, a pong or a close

struct Event {
  Opcode opcode = Opcode::kBinary;  // never kContinuation: messages are put together
  std::string payload;              // of a close: the reason
  uint16_t code = 0;                // of a close
};

// Reads one direction of a connection. Refused: reserved bits and opcodes, a frame masked where it must not
// be or plain where it must be masked, lengths written longer than needed, fragmented or long control frames,
// a message inside a message, text that is not UTF-8, a message beyond the limit (before it is taken in).
class Decoder {
 public:
  // `masked`: the peer is a client, so that its frames must be masked.
  Decoder(bool masked, size_t message_limit) : masked_(masked), message_limit_(message_limit) {}

  // Takes from the front of `bytes` up to the end of an event. Nothing: all of it was taken and more is
  // needed, or fault() says what is wrong.
  std::optional<Event> next(std::string_view& bytes);
  uint16_t fault() const { return fault_; }  // a CloseCode; 0: none

 private:
  size_t header_size() const;
  bool read_header();
  void take_payload(std::string_view& bytes);
  std::optional<Event> finish();
  std::nullopt_t wrong(uint16_t code);

  const bool masked_;
  const size_t message_limit_;
  uint16_t fault_ = 0;
  unsigned char header_[14] = {};
  size_t have_ = 0;        // bytes of the header
  bool in_frame_ = false;  // the header is complete
  bool final_ = false;
  Opcode opcode_ = Opcode::kBinary;
  uint64_t left_ = 0;  // of the frame's payload
  unsigned char mask_[4] = {};
  size_t mask_at_ = 0;
  bool in_message_ = false;
  Opcode message_opcode_ = Opcode::kBinary;
  std::string message_, control_;
};

// One whole frame. `mask`: four bytes from a client, empty from a server.
std::string encode_frame(Opcode opcode, std::string_view payload, std::string_view mask = {});
std::string encode_close(uint16_t code, std::string_view reason, std::string_view mask = {});

struct Handshake {
  std::string accept;    // for Sec-WebSocket-Accept
  std::string protocol;  // chosen; empty: the client offered none
};
// What a request to upgrade must say. `protocols`: those spoken, the best first. Errors: BadRequest; with
// `wrong_version` set, the answer is 426 and names version 13.
Result<Handshake> check_handshake(const Request& request, const std::vector<std::string>& protocols,
                                  bool& wrong_version);

std::string accept_of(std::string_view key);

}  // namespace nodus::http::websocket
