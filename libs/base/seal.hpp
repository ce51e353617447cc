// Encryption at rest: AES-256-GCM with a fresh nonce each time. What is sealed names what it belongs to
// (`about`), so that it cannot be moved to another row.
#pragma once

#include <string>
#include <string_view>

#include "libs/base/error.hpp"

namespace nodus {

inline constexpr size_t kSealKeyBytes = 32;

// nonce (12) | ciphertext | tag (16). `key` has kSealKeyBytes.
std::string seal(std::string_view key, std::string_view about, std::string_view plain);
// Internal/Unsealable: another key, another `about`, or changed bytes.
Result<std::string> unseal(std::string_view key, std::string_view about, std::string_view sealed);

}  // namespace nodus
