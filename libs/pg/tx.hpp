// One READ COMMITTED transaction of a Connection. It begins with its first statement, in the same round trip
// when that is a Statement; Statements whose rows nobody needs travel with the next one, and COMMIT with the
// last. Throws pqxx exceptions, as pqxx's own transactions do.
#pragma once

#include <memory>
#include <pqxx/pqxx>
#include <utility>
#include <vector>

#include "libs/pg/statement.hpp"

namespace nodus::pg {

class Connection;

class Tx {
 public:
  explicit Tx(Connection& connection);
  Tx(const Tx&) = delete;
  Tx& operator=(const Tx&) = delete;
  ~Tx();  // rolls back, unless it was committed

  // As in pqxx: https://libpqxx.readthedocs.io, transaction_base. A round trip each.
  template <class... Args>
  pqxx::result exec(Args&&... args) {
    return open().exec(std::forward<Args>(args)...);
  }
  template <class... Args>
  pqxx::result exec0(Args&&... args) {
    return open().exec0(std::forward<Args>(args)...);
  }
  template <class... Args>
  pqxx::row exec1(Args&&... args) {
    return open().exec1(std::forward<Args>(args)...);
  }
  template <class... Args>
  pqxx::result exec_params(Args&&... args) {
    return open().exec_params(std::forward<Args>(args)...);
  }
  template <class... Args>
  pqxx::result exec_params0(Args&&... args) {
    return open().exec_params0(std::forward<Args>(args)...);
  }
  template <class... Args>
  pqxx::row exec_params1(Args&&... args) {
    return open().exec_params1(std::forward<Args>(args)...);
  }
  template <class... Args>
  pqxx::result exec_prepared(Args&&... args) {
    return open().exec_prepared(std::forward<Args>(args)...);
  }
  template <class... Args>
  pqxx::result exec_prepared0(Args&&... args) {
    return open().exec_prepared0(std::forward<Args>(args)...);
  }
  template <class Value>
  std::string quote(const Value& value) {
    return open().quote(value);
  }
  pqxx::connection_base& conn() { return open().conn(); }

  Rows run(Statement statement);          // in one round trip with BEGIN and what was put off
  void later(Statement statement);        // a fault shows with the statement that it travels with
  Rows commit_with(Statement statement);  // in one round trip with COMMIT; the transaction is over then

  void commit();  // sends what was put off too; nothing at all if nothing ever ran
  void abort();
  bool committing() const { return committing_; }  // from now on a lost connection leaves its fate unknown
  bool committed() const { return committing_ && over_; }

 private:
  pqxx::nontransaction& open();
  std::vector<Rows> send();  // what was put off
  std::vector<Rows> end();   // and COMMIT

  Connection& connection_;
  bool reused_;  // the connection stood before: it may have died while idle
  bool begun_ = false;
  bool committing_ = false;
  bool over_ = false;
  size_t put_off_bytes_ = 0;
  std::vector<Statement> put_off_;
  std::unique_ptr<pqxx::nontransaction> sql_;
};

}  // namespace nodus::pg
