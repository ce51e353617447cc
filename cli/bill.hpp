// What was charged: bills, as tables, documents or CSV.
#pragma once

#include <string>

#include "cli/api.hpp"

namespace nodus::cli {

struct BillFlags {
  std::string sandbox;              // only this one
  std::string by, from, to, month;  // as the API takes them; empty: not given
  bool organization = false;        // all projects
  std::string output;               // json | yaml | csv; empty: a table
};
int bill(Api& api, const BillFlags& flags);

// /organizations/<the caller's>, a path of Api::root().
Result<std::string> organization_path(Api& api);

}  // namespace nodus::cli
