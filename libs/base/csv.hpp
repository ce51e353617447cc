// Cells of CSV (RFC 4180) that no spreadsheet takes for more than text.
#pragma once

#include <string>
#include <string_view>

namespace nodus {

// A text as a cell: quoted where it must be. One that a spreadsheet would run as a formula (it begins with
// = + - @ or a control character) gets a leading apostrophe; characters that are not printable become spaces.
// Not for numbers: write those as they are.
std::string csv_text(std::string_view text);

}  // namespace nodus
