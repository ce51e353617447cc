// What names and the keys and values of labels look like: Kubernetes' rules (RFC 1123 labels and names).
#pragma once

#include <string>
#include <string_view>

namespace nodus {

bool is_dns_label(std::string_view text);  // 1 to 63 lowercase letters, digits and inner hyphens
// 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends: a label's value (which may
// also be empty), or the name of its key.
bool is_qualified_name(std::string_view text);
// A qualified name, after a DNS name of at most 253 characters and '/' or not: the key of a label or
// annotation.
bool is_metadata_key(std::string_view key);
// What is wrong with an entry of metadata.labels or metadata.annotations, for people; empty: nothing.
std::string annotation_fault(std::string_view key);
std::string label_fault(std::string_view key, std::string_view value);

}  // namespace nodus
