#include "libs/base/utf8.hpp"

namespace nodus {

bool valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(at);
    if (first < 0x80) {
      ++at;
      continue;
    }
    const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || at + size > text.size()) return false;
    for (size_t i = 1; i < size; ++i)
      if ((byte(at + i) & 0xc0) != 0x80) return false;
    const unsigned char second = byte(at + 1);
    // Overlong forms, surrogates, beyond U+10FFFF.
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
      return false;
    at += size;
  }
  return true;
}

}  // namespace nodus
