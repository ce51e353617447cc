// What the CLI prints: tables, JSON, YAML, and the small texts in their cells.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/clock.hpp"

namespace nodus::cli {

// Columns as wide as their widest cell, three spaces between, none at the end of a line. The first row is the
// head.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

std::string format_age(Micros age);             // 45s, 12m, 3h, 2d
std::string format_cost(std::string_view usd);  // "0.004200000000" → "$0.0042"; rounded half up
std::string age_of(const boost::json::value& object, Instant now);

std::string sandbox_table(const std::vector<boost::json::value>& sandboxes, Instant now);
std::string process_table(const std::vector<boost::json::value>& processes, Instant now);
std::string bill_table(const boost::json::value& bill);

std::string to_pretty_json(const boost::json::value& value);
std::string to_yaml(const boost::json::value& value);

// The text at a dotted path, or "".
std::string text_at(const boost::json::value& value, std::string_view path);

}  // namespace nodus::cli
