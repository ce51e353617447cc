// What the operator's commands of admin.hpp do. Each returns an exit code.
#pragma once

#include <string>

#include "services/metering/adapters/operations.hpp"
#include "services/metering/config.hpp"

namespace nodus::metering {

int list_prices(const Config& config);
int show_prices(const Config& config, const std::string& version);

int post_credit_of(const Config& config, const CreditRequest& request);
int list_credits(const Config& config, const std::string& org);

int set_brake(const Config& config, bool on, const std::string& reason, const std::string& author);
int show_brake(const Config& config);

int run_rebuild(const Config& config);
int run_seal(const Config& config);
int run_verify(const Config& config, const std::string& expected);

}  // namespace nodus::metering
