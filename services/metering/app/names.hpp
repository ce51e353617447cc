// What may name an organization, wherever a name comes in.
#pragma once

#include <algorithm>
#include <string_view>

namespace nodus::metering {

inline bool is_label(std::string_view text) {
  const auto fine = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.size() <= 63 && std::ranges::all_of(text, fine);
}

}  // namespace nodus::metering
