// What was charged: bills, as tables, documents or CSV.
#pragma once

#include <string>

#include "cli/api.hpp"

namespace CLI {
class App;
}

namespace nodus::cli {

struct BillFlags {
  std::string sandbox;                     // only this one; "export": each line of the month, as CSV
  std::string by, from, to, month, label;  // as the API takes them; empty: not given
  std::string format = "csv";              // of an export: csv | focus-1.2
  bool organization = false;               // all projects
  std::string output;                      // json | yaml | csv; empty: a table
};
void bill_options(CLI::App& command, BillFlags& into);
int bill(Api& api, const BillFlags& flags);

// /organizations/<the caller's>, a path of Api::root().
Result<std::string> organization_path(Api& api);

}  // namespace nodus::cli
