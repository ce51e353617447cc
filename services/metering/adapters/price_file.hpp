// The price book as a file (prices.example.yaml shows its form), and its publication.
#pragma once

#include <string>
#include <vector>

#include "libs/pg/connection.hpp"
#include "services/metering/domain/prices.hpp"

namespace nodus::metering {

// Every fault at once, as causes with field paths.
Result<std::vector<PriceVersion>> read_price_file(const std::string& path);
Result<std::vector<PriceVersion>> read_price_text(const std::string& yaml);

// Answers the versions that were new.
Result<std::vector<std::string>> publish_prices(pg::Pool& pool, const std::vector<PriceVersion>& proposed,
                                                Instant now, Micros lead);

}  // namespace nodus::metering
