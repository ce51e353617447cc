// Invoices of the caller's organization. They are no objects of a project, so get and describe hand them
// over.
#pragma once

#include "cli/commands.hpp"

namespace nodus::cli {

bool about_invoices(const std::vector<std::string>& words);  // "invoices", "invoice NUMBER", "invoice/NUMBER"

int get_invoices(Api& api, const GetFlags& flags);
int describe_invoices(Api& api, const std::vector<std::string>& words);

}  // namespace nodus::cli
