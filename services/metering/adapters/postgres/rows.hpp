// Values of rows, shared by the files of this directory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libs/base/check.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/domain/prices.hpp"
#include "services/metering/domain/slot.hpp"

namespace nodus::metering {

// NUMERIC(38,12), selected as text. What the database holds was written by us, so it parses.
inline Money money_of(const pqxx::field& field) {
  auto parsed = Money::parse(field.c_str());
  CHECK(parsed.has_value(), "column {} holds {}", field.name(), field.c_str());
  return *parsed;
}
inline Rate rate_of(const pqxx::field& field) {
  return Rate::from_pico_per_second(money_of(field).pico());
}
inline std::optional<int64_t> optional_of(const pqxx::field& field) {
  if (field.is_null()) return std::nullopt;
  return field.as<int64_t>();
}
inline std::optional<int64_t> micros_of(std::optional<Instant> at) {
  if (!at) return std::nullopt;
  return to_micros(*at);
}
inline std::optional<Instant> instant_of(const pqxx::field& field) {
  if (field.is_null()) return std::nullopt;
  return from_micros(field.as<int64_t>());
}

std::vector<PriceVersion> read_prices(pg::Tx& tx);

}  // namespace nodus::metering
