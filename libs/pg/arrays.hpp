// Arrays as statement parameters, in PostgreSQL's binary format: a batch of rows travels in one statement
// without escaping or quoting, whatever the bytes. The statement must cast or declare the type, e.g.
// unnest($1::bytea[]).
#pragma once

#include <cstdint>
#include <pqxx/pqxx>
#include <string_view>
#include <vector>

namespace nodus::pg {

pqxx::binarystring text_array(const std::vector<std::string_view>& values);
pqxx::binarystring bytea_array(const std::vector<std::string_view>& values);
pqxx::binarystring int4_array(const std::vector<int32_t>& values);
pqxx::binarystring int8_array(const std::vector<int64_t>& values);

}  // namespace nodus::pg
