// SHA-256 (FIPS 180-4) without a library: the helper is one small static binary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace nodus::helper {

class Sha256 {
 public:
  void add(const void* data, size_t size);
  std::string hex();  // ends it; 64 lowercase hex digits

 private:
  void blocks(const unsigned char* bytes, size_t count);
  void block(const unsigned char* bytes);
  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char pending_[64];
  uint64_t size_ = 0;
};

}  // namespace nodus::helper
