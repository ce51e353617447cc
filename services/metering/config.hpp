// Everything that can be set. Defaults are the spec's values.
#pragma once

#include <string>

#include "libs/bus/bus.hpp"
#include "libs/config/config.hpp"
#include "libs/http/server.hpp"
#include "services/metering/app/deadlines.hpp"

namespace nodus::metering {

struct Config {
  http::ServerOptions http;
  pg::ConnectOptions database;
  int pool = 8;
  int log_partitions = 4;
  bus::TransportOptions bus;
  std::string log_level;
  Durations durations;
  DeadlineOptions deadlines;
  Micros price_lead{300'000'000};
  std::string invoice_issuer;  // what numbers of invoices begin with
  std::string identity_secret;
  std::string operator_token;  // NODUS_OPERATOR_TOKEN, at least 32 bytes; empty: the operator API is off
  std::string stripe_secret;   // NODUS_STRIPE_SECRET, of the payment webhook; empty: it is off
};

// Every fault at once, one cause each. `printed`: the effective values, secrets hidden. Operators' commands
// need the database only: with `serving` false no secret is asked for.
Result<Config> read_config(const std::string& path, std::string* printed, bool serving);

}  // namespace nodus::metering
