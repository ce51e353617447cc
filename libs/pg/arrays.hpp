// Arrays as statement parameters, in PostgreSQL's binary format: a batch of rows travels in one statement
// without escaping or quoting, whatever the bytes. The statement must cast or declare the type, e.g.
// unnest($1::bytea[]).
#pragma once

#include <cstdint>
#include <pqxx/pqxx>
#include <string_view>
#include <vector>

#include "libs/pg/statement.hpp"

namespace nodus::pg {

// For a Statement.
namespace arrays {
Array texts(const std::vector<std::string_view>& values);
Array byteas(const std::vector<std::string_view>& values);
Array tids(const std::vector<std::string_view>& values);  // 6 bytes each, as Rows::bytes() gives them
Array int4s(const std::vector<int32_t>& values);
Array int8s(const std::vector<int64_t>& values);
}  // namespace arrays

// For pqxx.
pqxx::binarystring text_array(const std::vector<std::string_view>& values);
pqxx::binarystring bytea_array(const std::vector<std::string_view>& values);
pqxx::binarystring int4_array(const std::vector<int32_t>& values);
pqxx::binarystring int8_array(const std::vector<int64_t>& values);

}  // namespace nodus::pg
