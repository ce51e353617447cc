// What the CLI prints: tables, JSON, YAML, and the small texts in their cells.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/names.hpp"
#include "libs/base/clock.hpp"

namespace nodus::cli {

// Columns as wide as their widest cell, three spaces between, none at the end of a line. The first row is the
// head.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

std::string format_age(Micros age);             // 45s, 12m, 3h, 2d
std::string format_cost(std::string_view usd);  // "0.004200000000" → "$0.0042"; rounded half up
std::string age_of(const boost::json::value& object, Instant now);

// Rows that come later stand under those that came first.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : head_(std::move(head)) {}
  std::string add(const std::vector<std::vector<std::string>>& rows);  // with the head, the first time

 private:
  std::vector<std::string> head_;
  std::vector<size_t> widths_;
};

std::vector<std::string> head_of(Kind kind, bool wide);
std::vector<std::string> row_of(Kind kind, const boost::json::value& object, bool wide, Instant now);
// "Stop in 4m (Idle)": what happens to it next by itself; "" for nothing.
std::string next_of(const boost::json::value& sandbox, Instant now);
// "42m": how long it can go on as it is before spec.maxCostUSD is used up; "" without a cap, or at rest.
std::string cap_left_of(const boost::json::value& sandbox);
std::string command_line(const boost::json::value& process);  // one line, nothing that moves a cursor
std::string one_line(std::string text);
std::string bill_totals(const boost::json::value& bill);

std::string to_pretty_json(const boost::json::value& value);
std::string to_yaml(const boost::json::value& value);

// What is at a dotted path, or null.
const boost::json::value* value_at(const boost::json::value& value, std::string_view path);
// The text at a dotted path, or "".
std::string text_at(const boost::json::value& value, std::string_view path);

}  // namespace nodus::cli
