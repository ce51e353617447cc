#include "libs/pg/session.hpp"

#include <libpq-fe.h>

#include <optional>
#include <set>

#include "libs/base/check.hpp"

namespace nodus::pg {
namespace {

struct Failure {
  std::string message;
  std::string state;
  const char* sql;
};

std::string text_of(const char* text) {
  return text == nullptr ? "" : text;
}

[[noreturn]] void broken(PGconn* handle) {
  throw pqxx::broken_connection(text_of(PQerrorMessage(handle)));
}

void must_send(PGconn* handle, int sent) {
  if (sent != 1) broken(handle);
}

void send(PGconn* handle, const Statement& statement) {
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
  for (const auto& parameter : statement.parameters()) {
    values.push_back(parameter.null ? nullptr : parameter.bytes.c_str());
    lengths.push_back(static_cast<int>(parameter.bytes.size()));
    formats.push_back(parameter.binary ? 1 : 0);
  }
  must_send(handle, PQsendQueryPrepared(handle, statement.name(), static_cast<int>(values.size()),
                                        values.data(), lengths.data(), formats.data(), 1));
}

// The result of the statement that is next in line; none follows a connection that broke.
Rows next(PGconn* handle, const char* sql, std::optional<Failure>& failed) {
  PGresult* result = PQgetResult(handle);
  if (result == nullptr) broken(handle);
  Rows rows(result);
  const auto status = PQresultStatus(result);
  if (status == PGRES_FATAL_ERROR && !failed)
    failed = Failure{text_of(PQresultErrorMessage(result)),
                     text_of(PQresultErrorField(result, PG_DIAG_SQLSTATE)), sql};
  while (PGresult* more = PQgetResult(handle)) {
    PQclear(more);
    if (PQstatus(handle) == CONNECTION_BAD) break;
  }
  return rows;
}

}  // namespace

Session::Session(const std::string& options) : Handle(options), pqxx::connection_base(policy) {
  init();
}

Session::~Session() {
  close();
}

std::vector<Rows> Session::together(std::span<const Statement> statements) {
  PGconn* handle = policy.held;
  if (PQenterPipelineMode(handle) != 1) broken(handle);
  std::set<std::string_view> fresh;
  for (const auto& statement : statements) {
    const auto known = prepared_.find(statement.name());
    CHECK(known == prepared_.end() || known->second == statement.sql(), "two statements are named {}",
          statement.name());
    if (known == prepared_.end() && fresh.insert(statement.name()).second)
      must_send(handle, PQsendPrepare(handle, statement.name(), statement.sql(), 0, nullptr));
    send(handle, statement);
  }
  must_send(handle, PQpipelineSync(handle));
  std::optional<Failure> failed;
  std::vector<Rows> rows;
  for (const auto& statement : statements) {
    if (fresh.erase(statement.name()) == 1) {
      (void)next(handle, statement.sql(), failed);
      if (!failed) prepared_.emplace(statement.name(), statement.sql());
    }
    rows.push_back(next(handle, statement.sql(), failed));
  }
  PGresult* end = PQgetResult(handle);
  const bool synced = PQresultStatus(end) == PGRES_PIPELINE_SYNC;
  PQclear(end);
  if (!synced || PQexitPipelineMode(handle) != 1 || PQstatus(handle) == CONNECTION_BAD)
    throw pqxx::broken_connection(failed ? failed->message : text_of(PQerrorMessage(handle)));
  // libpq's own faults have no state; what became of the statement is not known then.
  if (failed && failed->state.empty()) throw pqxx::broken_connection(failed->message);
  if (failed) throw pqxx::sql_error(failed->message, failed->sql, failed->state.c_str());
  return rows;
}

bool Session::idle() const {
  return PQtransactionStatus(policy.held) == PQTRANS_IDLE;
}

}  // namespace nodus::pg
