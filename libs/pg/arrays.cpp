#include "libs/pg/arrays.hpp"

#include <string>

namespace nodus::pg {
namespace {

// Type oids are fixed: src/include/catalog/pg_type.dat.
constexpr uint32_t kBytea = 17;
constexpr uint32_t kInt8 = 20;
constexpr uint32_t kInt4 = 23;
constexpr uint32_t kText = 25;

template <class Unsigned>
void put(std::string& out, Unsigned value) {
  for (int shift = 8 * (static_cast<int>(sizeof value) - 1); shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(value >> shift & 0xff));
}

// array_recv: dimensions, has-nulls flag, element type, then length and lower bound of each dimension.
std::string header(uint32_t element, size_t count) {
  std::string out;
  put<uint32_t>(out, count == 0 ? 0 : 1);
  put<uint32_t>(out, 0);
  put<uint32_t>(out, element);
  if (count == 0) return out;
  put(out, static_cast<uint32_t>(count));
  put<uint32_t>(out, 1);
  return out;
}

pqxx::binarystring bytes_array(uint32_t element, const std::vector<std::string_view>& values) {
  std::string out = header(element, values.size());
  size_t total = out.size();
  for (auto value : values) total += 4 + value.size();
  out.reserve(total);
  for (auto value : values) {
    put(out, static_cast<uint32_t>(value.size()));
    out.append(value);
  }
  return pqxx::binarystring(out);
}

template <class Signed, class Unsigned>
pqxx::binarystring int_array(uint32_t element, const std::vector<Signed>& values) {
  std::string out = header(element, values.size());
  for (Signed value : values) {
    put<uint32_t>(out, sizeof value);
    put(out, static_cast<Unsigned>(value));
  }
  return pqxx::binarystring(out);
}

}  // namespace

pqxx::binarystring text_array(const std::vector<std::string_view>& values) {
  return bytes_array(kText, values);
}
pqxx::binarystring bytea_array(const std::vector<std::string_view>& values) {
  return bytes_array(kBytea, values);
}
pqxx::binarystring int4_array(const std::vector<int32_t>& values) {
  return int_array<int32_t, uint32_t>(kInt4, values);
}
pqxx::binarystring int8_array(const std::vector<int64_t>& values) {
  return int_array<int64_t, uint64_t>(kInt8, values);
}

}  // namespace nodus::pg
