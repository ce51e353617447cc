// Internal: a pqxx connection that also lets statements travel together, which pqxx does not. See libpq's
// pipeline mode: https://www.postgresql.org/docs/15/libpq-pipeline-mode.html
#pragma once

#include <map>
#include <pqxx/pqxx>
#include <span>
#include <string>
#include <vector>

#include "libs/pg/statement.hpp"

namespace nodus::pg {

// The only way that pqxx 6 shows the handle of libpq.
class KeepHandle : public pqxx::connect_direct {
 public:
  using pqxx::connect_direct::connect_direct;
  handle do_startconnect(handle already) override {
    return held = pqxx::connect_direct::do_startconnect(already);
  }
  handle held = nullptr;
};

struct Handle {  // a base, so that it is there before pqxx connects
  explicit Handle(const std::string& options) : policy(options) {}
  KeepHandle policy;
};

class Session final : private Handle, public pqxx::connection_base {
 public:
  explicit Session(const std::string& options);
  ~Session();

  // Sends all of them at once and gives the rows of each. The first that fails is thrown as pqxx would throw
  // it, and those after it have not run. Nothing else may be under way on the connection.
  std::vector<Rows> together(std::span<const Statement> statements);
  bool idle() const;  // in no transaction: what alone may go back to a pool

 private:
  std::map<std::string, std::string, std::less<>> prepared_;  // SQL by name
};

}  // namespace nodus::pg
