#include "libs/base/csv.hpp"

namespace nodus {

std::string csv_text(std::string_view text) {
  std::string cell;
  bool quote = false;
  // Also after blanks, and behind a quote: what a reader may strip.
  const size_t first = text.find_first_not_of(" \t\r\n\"'");
  if (first != std::string_view::npos && std::string_view("=+-@|%").contains(text[first])) cell += '\'';
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
