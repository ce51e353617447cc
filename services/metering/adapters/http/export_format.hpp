// Lines of a month as CSV, in the service's own columns or in those of FOCUS 1.2 (the FinOps Open Cost and
// Usage Specification, https://focus.finops.org/focus-specification/v1-2/). How each column comes about:
// docs/finance.md.
#pragma once

#include <string>

#include "services/metering/adapters/postgres/export_rows.hpp"

namespace nodus::metering {

enum class ExportFormat { kCsv, kFocus };

struct ExportOf {  // what is the same in each row
  OrgId org;
  Month month = 0;
  std::string issuer;
  std::string invoice;  // empty: not invoiced
};

std::string export_head(ExportFormat format);
void add_row(ExportFormat format, const ExportOf& of, const ExportRow& row, std::string& into);

}  // namespace nodus::metering
