#pragma once

#include <string_view>

namespace nodus {

// Whether bytes are UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool valid_utf8(std::string_view text);

}  // namespace nodus
