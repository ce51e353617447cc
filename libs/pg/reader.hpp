// One statement that reads, outside of any transaction: one round trip instead of three. It may run twice:
// once more when the connection turns out to have died while idle. Errors: those of Connection::with_tx, but
// never CommitUnknown.
#pragma once

#include "libs/pg/connection.hpp"

namespace nodus::pg {

std::optional<Error> run_read(Connection& connection, const std::function<void(pqxx::nontransaction&)>& body);

template <class Body>
auto read(Pool& pool, Body&& body) -> std::invoke_result_t<Body, pqxx::nontransaction&> {
  using R = std::invoke_result_t<Body, pqxx::nontransaction&>;
  auto lease = pool.acquire();
  if (!lease) return std::unexpected(std::move(lease.error()));
  R result{std::unexpect, Error{}};
  auto failed = run_read(**lease, [&](pqxx::nontransaction& reader) { result = body(reader); });
  if (failed) return std::unexpected(std::move(*failed));
  return result;
}

}  // namespace nodus::pg
