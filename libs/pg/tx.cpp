#include "libs/pg/tx.hpp"

#include "libs/base/check.hpp"
#include "libs/pg/connection.hpp"
#include "libs/pg/session.hpp"

namespace nodus::pg {
namespace {

constexpr size_t kPutOff = 64;  // statements, and
constexpr size_t kPutOffBytes = 1024 * 1024;

const Statement kBegin("tx_begin", "BEGIN");
const Statement kCommit("tx_commit", "COMMIT");
const Statement kRollback("tx_rollback", "ROLLBACK");

}  // namespace

Tx::Tx(Connection& connection) : connection_(connection), reused_(connection.connected()) {}

Tx::~Tx() {
  try {
    abort();
  } catch (const std::exception&) {
    sql_.reset();
    connection_.disconnect();
  }
}

std::vector<Rows> Tx::send() {
  CHECK(!over_, "a statement after the end of its transaction");
  auto statements = std::exchange(put_off_, {});
  put_off_bytes_ = 0;
  if (begun_) {
    if (!connection_.connected()) throw pqxx::broken_connection("the connection of this transaction is gone");
    return connection_.session().together(statements);
  }
  statements.insert(statements.begin(), kBegin);
  std::vector<Rows> rows;
  try {
    rows = connection_.session().together(statements);
  } catch (const pqxx::broken_connection&) {
    // It died while idle: nothing was kept, so a fresh one may take its place, once.
    if (!reused_) throw;
    connection_.disconnect();
    begun_ = true;
    rows = connection_.session().together(statements);
  } catch (...) {
    begun_ = true;  // perhaps; ROLLBACK outside of a transaction is harmless
    throw;
  }
  begun_ = true;
  rows.erase(rows.begin());
  return rows;
}

pqxx::nontransaction& Tx::open() {
  if (!begun_ || !put_off_.empty()) send();
  CHECK(!over_, "a statement after the end of its transaction");
  if (!sql_) sql_ = std::make_unique<pqxx::nontransaction>(connection_.session());
  return *sql_;
}

Rows Tx::run(Statement statement) {
  put_off_.push_back(std::move(statement));
  auto rows = send();
  return std::move(rows.back());
}

void Tx::later(Statement statement) {
  CHECK(!over_, "a statement after the end of its transaction");
  for (const auto& parameter : statement.parameters()) put_off_bytes_ += parameter.bytes.size();
  put_off_.push_back(std::move(statement));
  if (put_off_.size() >= kPutOff || put_off_bytes_ > kPutOffBytes) send();
}

Rows Tx::commit_with(Statement statement) {
  if (!begun_) open();  // COMMIT never travels over a connection that was not tried before
  put_off_.push_back(std::move(statement));
  auto rows = end();
  rows.pop_back();
  return std::move(rows.back());
}

void Tx::commit() {
  if (!begun_ && !put_off_.empty()) open();
  if (begun_ && !over_) end();
  over_ = true;
}

std::vector<Rows> Tx::end() {
  put_off_.push_back(kCommit);
  committing_ = true;
  auto rows = send();
  over_ = true;
  if (rows.back().tag() != "COMMIT")
    throw pqxx::sql_error("the transaction was rolled back: one of its statements had failed", "COMMIT",
                          "25P02");
  return rows;
}

void Tx::abort() {
  if (over_ || !begun_ || !connection_.connected()) return;
  over_ = true;
  try {
    connection_.session().together({&kRollback, 1});
  } catch (const pqxx::broken_connection&) {  // then the server rolls back
    sql_.reset();
    connection_.disconnect();
  }
}

}  // namespace nodus::pg
