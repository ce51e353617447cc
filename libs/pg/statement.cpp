#include "libs/pg/statement.hpp"

#include <libpq-fe.h>

#include "libs/base/check.hpp"

namespace nodus::pg {
namespace {

uint64_t big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (unsigned char byte : bytes) value = value << 8 | byte;
  return value;
}

}  // namespace

// As text it would end at a zero byte; in binary the server refuses one.
Statement::Parameter Statement::parameter(std::string_view value) {
  return {std::string(value), value.find('\0') != std::string_view::npos};
}

Rows::Rows(PGresult* result) : result_(result) {}

void Rows::Clear::operator()(PGresult* result) const {
  PQclear(result);
}

int Rows::size() const {
  return PQntuples(result_.get());
}

bool Rows::null(int row, int column) const {
  return PQgetisnull(result_.get(), row, column) != 0;
}

std::string_view Rows::bytes(int row, int column) const {
  CHECK(row < size() && column < PQnfields(result_.get()), "row {}, column {}", row, column);
  return {PQgetvalue(result_.get(), row, column),
          static_cast<size_t>(PQgetlength(result_.get(), row, column))};
}

int32_t Rows::int4(int row, int column) const {
  auto value = bytes(row, column);
  CHECK(value.size() == 4, "an integer of {} bytes", value.size());
  return static_cast<int32_t>(big_endian(value));
}

int64_t Rows::int8(int row, int column) const {
  auto value = bytes(row, column);
  CHECK(value.size() == 8, "a bigint of {} bytes", value.size());
  return static_cast<int64_t>(big_endian(value));
}

std::string_view Rows::tag() const {
  return PQcmdStatus(result_.get());
}

}  // namespace nodus::pg
