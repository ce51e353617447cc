// Rows of a statement as columns of text: one statement a table, whatever the number of rows.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/pg/arrays.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::metering {

// Rows of text, column by column; SQL casts them. An empty text stands for NULL where the SQL says so.
template <size_t N>
class Rows {
 public:
  void add(std::array<std::string, N> row) {
    for (size_t i = 0; i < N; ++i) columns_[i].push_back(std::move(row[i]));
  }
  bool empty() const { return columns_[0].empty(); }
  // Runs the prepared statement with a text[] a column.
  void exec(pg::Tx& tx, const char* name, const char* sql) const {
    if (empty()) return;
    tx.conn().prepare(name, sql);
    const auto array = [](const std::vector<std::string>& column) {
      return pg::text_array(std::vector<std::string_view>(column.begin(), column.end()));
    };
    std::apply([&](const auto&... columns) { tx.exec_prepared(name, array(columns)...); }, columns_);
  }

 private:
  std::array<std::vector<std::string>, N> columns_;
};

inline std::string text(bool value) {
  return value ? "t" : "f";
}
inline std::string text(int64_t value) {
  return std::to_string(value);
}
inline std::string text(std::optional<int64_t> value) {
  return value ? std::to_string(*value) : "";
}
inline std::string text(std::optional<Instant> at) {
  return at ? std::to_string(to_micros(*at)) : "";
}

}  // namespace nodus::metering
