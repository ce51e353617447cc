#include "libs/base/csv.hpp"

#include <algorithm>

namespace nodus {

namespace {

bool is_plain(unsigned char byte) {
  return byte >= 0x20 && byte != 0x7f && byte != '"' && byte != ',' && byte != ';';
}

}  // namespace

std::string csv_text(std::string_view text) {
  // Also after blanks, and behind a quote: what a reader may strip.
  const size_t first = text.find_first_not_of(" \t\r\n\"'");
  const bool formula = first != std::string_view::npos && std::string_view("=+-@|%").contains(text[first]);
  const bool blank_ends = !text.empty() && (text.front() == ' ' || text.back() == ' ');
  if (!formula && !blank_ends && std::ranges::all_of(text, is_plain)) return std::string(text);  // most are
  std::string cell(formula ? "'" : "");
  bool quote = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      cell += ' ';
      continue;
    }
    if (c == '"') cell += '"';
    quote = quote || c == '"' || c == ',' || c == ';';
    cell += c;
  }
  if (!cell.empty() && (cell.front() == ' ' || cell.back() == ' ')) quote = true;
  return quote ? '"' + cell + '"' : cell;
}

}  // namespace nodus
