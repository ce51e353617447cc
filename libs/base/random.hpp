// Randomness from the kernel, and the hashes that go with it. The pure core never calls these.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nodus {

std::string random_bytes(size_t count);
std::string random_uuid();              // UUIDv4, lowercase
std::string random_token();             // 32 random bytes, URL-safe base64 without padding
uint64_t random_below(uint64_t limit);  // uniform in [0, limit), limit > 0; for jitter

std::string sha256_hex(std::string_view bytes);                             // 64 lowercase hex digits
std::string hmac_sha256_hex(std::string_view key, std::string_view bytes);  // 64 lowercase hex digits
bool equal_in_constant_time(std::string_view a, std::string_view b);

std::string to_hex(std::string_view bytes);
std::string to_base64(std::string_view bytes);
bool from_base64(std::string_view text, std::string& bytes);  // strict; false on any fault

}  // namespace nodus
