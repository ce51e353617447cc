#include "libs/http/websocket_frame.hpp"

#include <openssl/sha.h>
#include <strings.h>

#include <algorithm>

#include "libs/base/random.hpp"
#include "libs/base/utf8.hpp"

namespace nodus::http::websocket {

namespace {
constexpr unsigned char kFinal = 0x80, kReserved = 0x70, kOpcodeBits = 0x0f, kMasked = 0x80,
                        kLengthBits = 0x7f;
constexpr unsigned char kLength16 = 126, kLength64 = 127;

bool is_control(Opcode opcode) {
  return static_cast<uint8_t>(opcode) >= 8;
}

bool is_known(uint8_t opcode) {
  return opcode <= 2 || (opcode >= 8 && opcode <= 10);
}

// Codes that may be on the wire.
bool is_close_code(uint16_t code) {
  return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
         (code >= 3000 && code <= 4999);
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The elements of all fields of that name, in their order.
std::vector<std::string_view> elements(const Headers& headers, std::string_view name) {
  std::vector<std::string_view> found;
  for (const auto& [field, value] : headers.all()) {
    if (!same(field, name)) continue;
    for (std::string_view rest = value;;) {
      const size_t comma = rest.find(',');
      if (const auto element = trim(rest.substr(0, comma)); !element.empty()) found.push_back(element);
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return found;
}

bool has_element(const Headers& headers, std::string_view name, std::string_view wanted) {
  return std::ranges::any_of(elements(headers, name), [&](auto element) { return same(element, wanted); });
}

size_t count(const Headers& headers, std::string_view name) {
  return static_cast<size_t>(
      std::ranges::count_if(headers.all(), [&](const auto& field) { return same(field.first, name); }));
}

std::unexpected<Error> refused(std::string message) {
  return fail(Code::kBadRequest, "BadRequest", std::move(message));
}
}  // namespace

size_t Decoder::header_size() const {
  if (have_ < 2) return 2;
  const unsigned char length = header_[1] & kLengthBits;
  return 2 + (length == kLength16 ? 2 : length == kLength64 ? 8 : 0) + (header_[1] & kMasked ? 4 : 0);
}

std::nullopt_t Decoder::wrong(uint16_t code) {
  fault_ = code;
  message_ = control_ = {};
  return std::nullopt;
}

// False: fault_ is set.
bool Decoder::read_header() {
  const uint8_t opcode = header_[0] & kOpcodeBits;
  const bool masked = header_[1] & kMasked;
  final_ = header_[0] & kFinal;
  left_ = header_[1] & kLengthBits;
  const size_t extended = left_ == kLength16 ? 2 : left_ == kLength64 ? 8 : 0;
  if (extended) {
    left_ = 0;
    for (size_t i = 0; i < extended; ++i) left_ = left_ << 8 | header_[2 + i];
    if (left_ < (extended == 2 ? 126u : 65536u) || left_ >> 63) fault_ = kProtocolError;
  }
  if (header_[0] & kReserved || !is_known(opcode) || masked != masked_) fault_ = kProtocolError;
  if (fault_) return false;
  opcode_ = static_cast<Opcode>(opcode);
  if (masked) std::copy_n(header_ + 2 + extended, 4, mask_);
  mask_at_ = 0;
  if (is_control(opcode_)) {
    if (!final_ || left_ > kControlBytes) fault_ = kProtocolError;
  } else {
    if ((opcode_ == Opcode::kContinuation) != in_message_) fault_ = kProtocolError;
    if (!fault_ && left_ > message_limit_ - message_.size()) fault_ = kTooBig;
    if (opcode_ != Opcode::kContinuation) message_opcode_ = opcode_;
    in_message_ = true;
  }
  return !fault_;
}

void Decoder::take_payload(std::string_view& bytes) {
  std::string& into = is_control(opcode_) ? control_ : message_;
  const size_t size = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
  const size_t before = into.size();
  into.append(bytes.substr(0, size));
  if (masked_)
    for (size_t i = before; i < into.size(); ++i)
      into[i] = static_cast<char>(into[i] ^ mask_[mask_at_++ & 3]);
  bytes.remove_prefix(size);
  left_ -= size;
}

std::optional<Event> Decoder::finish() {
  in_frame_ = false;
  have_ = 0;
  Event event;
  if (!is_control(opcode_)) {
    if (!final_) return std::nullopt;
    in_message_ = false;
    event.opcode = message_opcode_;
    event.payload = std::exchange(message_, {});
    if (event.opcode == Opcode::kText && !valid_utf8(event.payload)) return wrong(kBadText);
    return event;
  }
  event.opcode = opcode_;
  event.payload = std::exchange(control_, {});
  if (opcode_ != Opcode::kClose) return event;
  event.code = kNoStatus;
  if (event.payload.empty()) return event;
  if (event.payload.size() < 2) return wrong(kProtocolError);
  event.code = static_cast<uint16_t>(static_cast<unsigned char>(event.payload[0]) << 8 |
                                     static_cast<unsigned char>(event.payload[1]));
  event.payload.erase(0, 2);
  if (!is_close_code(event.code)) return wrong(kProtocolError);
  if (!valid_utf8(event.payload)) return wrong(kBadText);
  return event;
}

std::optional<Event> Decoder::next(std::string_view& bytes) {
  while (!fault_) {
    if (!in_frame_) {
      while (have_ < header_size() && !bytes.empty()) {
        header_[have_++] = static_cast<unsigned char>(bytes.front());
        bytes.remove_prefix(1);
      }
      if (have_ < header_size()) return std::nullopt;
      if (!read_header()) return wrong(fault_);
      in_frame_ = true;
    }
    take_payload(bytes);
    if (left_ > 0) return std::nullopt;
    if (auto event = finish()) return event;
  }
  return std::nullopt;
}

std::string encode_frame(Opcode opcode, std::string_view payload, std::string_view mask) {
  std::string frame;
  frame.reserve(payload.size() + 14);
  frame += static_cast<char>(kFinal | static_cast<uint8_t>(opcode));
  const unsigned char masked = mask.size() == 4 ? kMasked : 0;
  const size_t size = payload.size();
  const int extended = size > 0xffff ? 8 : size > 125 ? 2 : 0;
  frame += static_cast<char>(masked | (extended == 8   ? kLength64
                                       : extended == 2 ? kLength16
                                                       : static_cast<unsigned char>(size)));
  for (int i = extended - 1; i >= 0; --i) frame += static_cast<char>(uint64_t{size} >> (8 * i));
  if (!masked) return frame.append(payload);
  frame.append(mask);
  for (size_t i = 0; i < size; ++i) frame += static_cast<char>(payload[i] ^ mask[i & 3]);
  return frame;
}

std::string encode_close(uint16_t code, std::string_view reason, std::string_view mask) {
  std::string payload;
  if (code != kNoStatus) {
    payload += static_cast<char>(code >> 8);
    payload += static_cast<char>(code & 0xff);
    size_t size = std::min(reason.size(), kControlBytes - 2);
    while (size > 0 && size < reason.size() && (reason[size] & 0xc0) == 0x80) --size;  // whole characters
    payload.append(reason.substr(0, size));
  }
  return encode_frame(Opcode::kClose, payload, mask);
}

std::string accept_of(std::string_view key) {
  const std::string text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return to_base64({reinterpret_cast<const char*>(digest), sizeof digest});
}

Result<Handshake> check_handshake(const Request& request, const std::vector<std::string>& protocols,
                                  bool& wrong_version) {
  const Headers& headers = request.headers;
  wrong_version = false;
  if (request.method != "GET") return refused("A WebSocket is opened with GET.");
  if (!has_element(headers, "Connection", "upgrade") || !has_element(headers, "Upgrade", "websocket"))
    return refused("This path is a WebSocket: send Connection: Upgrade and Upgrade: websocket.");
  if (headers.get("Transfer-Encoding") || headers.get("Content-Length").value_or("0") != "0")
    return refused("A request that opens a WebSocket has no body.");
  if (count(headers, "Sec-WebSocket-Version") != 1 || headers.get("Sec-WebSocket-Version") != "13") {
    wrong_version = true;
    return refused("The WebSocket version spoken here is 13.");
  }
  const std::string key = headers.get("Sec-WebSocket-Key").value_or("");
  std::string nonce;
  if (count(headers, "Sec-WebSocket-Key") != 1 || !from_base64(key, nonce) || nonce.size() != 16)
    return refused("Sec-WebSocket-Key is 16 bytes in base64, once.");
  Handshake handshake{accept_of(key), ""};
  const auto offered = elements(headers, "Sec-WebSocket-Protocol");
  if (offered.empty()) return handshake;
  for (const auto& spoken : protocols)
    if (std::ranges::find(offered, std::string_view(spoken)) != offered.end())
      return handshake.protocol = spoken, handshake;
  std::string known;
  for (const auto& spoken : protocols) known += (known.empty() ? "" : ", ") + spoken;
  return refused("None of the subprotocols offered is spoken here; these are: " + known + ".");
}

}  // namespace nodus::http::websocket
