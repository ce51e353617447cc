#include "libs/pg/arrays.hpp"

#include <string>
#include <utility>

namespace nodus::pg {
namespace {

// Type oids are fixed: src/include/catalog/pg_type.dat.
constexpr uint32_t kBytea = 17;
constexpr uint32_t kInt8 = 20;
constexpr uint32_t kInt4 = 23;
constexpr uint32_t kText = 25;
constexpr uint32_t kTid = 27;

template <class Unsigned>
void put(std::string& out, Unsigned value) {
  char bytes[sizeof value];
  for (size_t i = 0; i < sizeof value; ++i)
    bytes[i] = static_cast<char>(value >> (8 * (sizeof value - 1 - i)) & 0xff);
  out.append(bytes, sizeof bytes);
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

Array bytes_array(uint32_t element, const std::vector<std::string_view>& values) {
  std::string out = header(element, values.size());
  size_t total = out.size();
  for (auto value : values) total += 4 + value.size();
  out.reserve(total);
  for (auto value : values) {
    put(out, static_cast<uint32_t>(value.size()));
    out.append(value);
  }
  return {std::move(out)};
}

template <class Signed, class Unsigned>
Array int_array(uint32_t element, const std::vector<Signed>& values) {
  std::string out = header(element, values.size());
  out.reserve(out.size() + values.size() * (4 + sizeof(Signed)));
  for (Signed value : values) {
    put<uint32_t>(out, sizeof value);
    put(out, static_cast<Unsigned>(value));
  }
  return {std::move(out)};
}

}  // namespace

namespace arrays {

Array texts(const std::vector<std::string_view>& values) {
  return bytes_array(kText, values);
}
Array byteas(const std::vector<std::string_view>& values) {
  return bytes_array(kBytea, values);
}
Array tids(const std::vector<std::string_view>& values) {
  return bytes_array(kTid, values);
}
Array int4s(const std::vector<int32_t>& values) {
  return int_array<int32_t, uint32_t>(kInt4, values);
}
Array int8s(const std::vector<int64_t>& values) {
  return int_array<int64_t, uint64_t>(kInt8, values);
}
}  // namespace arrays

pqxx::binarystring text_array(const std::vector<std::string_view>& values) {
  return pqxx::binarystring(arrays::texts(values).encoded);
}
pqxx::binarystring bytea_array(const std::vector<std::string_view>& values) {
  return pqxx::binarystring(arrays::byteas(values).encoded);
}
pqxx::binarystring int4_array(const std::vector<int32_t>& values) {
  return pqxx::binarystring(arrays::int4s(values).encoded);
}
pqxx::binarystring int8_array(const std::vector<int64_t>& values) {
  return pqxx::binarystring(arrays::int8s(values).encoded);
}

}  // namespace nodus::pg
