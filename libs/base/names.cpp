#include "libs/base/names.hpp"

#include <algorithm>

namespace nodus {

namespace {

constexpr size_t kMaxLabel = 63;
constexpr size_t kMaxDnsName = 253;

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_alphanumeric(char c) {
  return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

}  // namespace

bool is_dns_label(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLabel && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

bool is_qualified_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLabel && is_alphanumeric(text.front()) &&
         is_alphanumeric(text.back()) && std::ranges::all_of(text, [](char c) {
           return is_alphanumeric(c) || std::string_view("-_.").contains(c);
         });
}

bool is_metadata_key(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return is_qualified_name(key);
  const std::string_view prefix = key.substr(0, slash);
  if (prefix.empty() || prefix.size() > kMaxDnsName || !is_qualified_name(key.substr(slash + 1)))
    return false;
  for (size_t at = 0; at <= prefix.size();) {
    const size_t dot = std::min(prefix.find('.', at), prefix.size());
    if (!is_dns_label(prefix.substr(at, dot - at))) return false;
    at = dot + 1;
  }
  return true;
}

std::string annotation_fault(std::string_view key) {
  if (is_metadata_key(key)) return "";
  return "A key has at most 63 letters, digits, '-', '_' and '.', after a DNS name and '/' or not.";
}

std::string label_fault(std::string_view key, std::string_view value) {
  auto fault = annotation_fault(key);
  if (!fault.empty() || value.empty() || is_qualified_name(value)) return fault;
  return "A label's value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a "
         "letter or "
         "digit; or it is empty.";
}

}  // namespace nodus
