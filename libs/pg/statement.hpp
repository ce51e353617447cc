// A prepared statement with its parameters, and the rows that it gave, these in PostgreSQL's binary format.
// It is prepared on a connection in the round trip that first needs it there.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <pqxx/binarystring>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
typedef struct pg_result PGresult;
}

namespace nodus::pg {

// Of pg::text_array and its like: libs/pg/arrays.hpp.
struct Array {
  std::string encoded;
};

class Statement {
 public:
  struct Parameter {
    std::string bytes;
    bool binary;
    bool null = false;
  };

  // `name` stands for `sql` on every connection, for good, and pqxx does not prepare it too; both outlive the
  // Statement. Parameters: text, whole numbers, bool, std::optional of those, pqxx::binarystring (bytea),
  // Array.
  template <class... Values>
  Statement(const char* name, const char* sql, const Values&... values) : name_(name), sql_(sql) {
    parameters_.reserve(sizeof...(values));
    (parameters_.push_back(parameter(values)), ...);
  }

  const char* name() const { return name_; }
  const char* sql() const { return sql_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  static Parameter parameter(std::string_view value);
  static Parameter parameter(const pqxx::binarystring& value) { return {value.str(), true}; }
  static Parameter parameter(const Array& value) { return {value.encoded, true}; }
  template <std::same_as<bool> Bool>  // a template, so that no pointer becomes one
  static Parameter parameter(Bool value) {
    return {value ? "t" : "f", false};
  }
  template <std::integral Number>
    requires(!std::same_as<Number, bool>)
  static Parameter parameter(Number value) {
    return {std::to_string(value), false};
  }
  template <class Value>
  static Parameter parameter(const std::optional<Value>& value) {
    return value ? parameter(*value) : Parameter{"", false, true};
  }

  const char* name_;
  const char* sql_;
  std::vector<Parameter> parameters_;
};

// Rows and columns count from 0; one that is not there is a fault of the program.
class Rows {
 public:
  explicit Rows(PGresult* result);

  int size() const;
  bool null(int row, int column) const;
  std::string_view bytes(int row, int column) const;  // text, bytea or tid; valid as long as the Rows
  int32_t int4(int row, int column) const;
  int64_t int8(int row, int column) const;
  bool boolean(int row, int column) const { return bytes(row, column) == std::string_view("\1", 1); }
  std::string_view tag() const;  // what the server says it did, e.g. COMMIT

 private:
  struct Clear {
    void operator()(PGresult* result) const;
  };
  std::unique_ptr<PGresult, Clear> result_;
};

}  // namespace nodus::pg
