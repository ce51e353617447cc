#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "libs/base/check.hpp"
#include "libs/pg/connection.hpp"
#include "libs/pg/reader.hpp"
#include "libs/pg/session.hpp"

#if defined(__has_feature) && __has_feature(address_sanitizer)
// libpqxx before 7.6.1 loses one result (2 kB) with each lost connection, and with each refused one:
// https://github.com/jtv/libpqxx/pull/500, https://github.com/jtv/libpqxx/issues/502.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libpqxx-6.4.so\n";
}
#endif

namespace nodus::pg {
namespace {

Error lost(const std::string& why) {
  return {Code::kUnavailable, "DatabaseUnavailable", "The database cannot be reached: " + why, {}, 1, {}};
}
Error busy(const std::string& why) {
  return {Code::kUnavailable, "DatabaseBusy", "The database did not answer in time: " + why, {}, 1, {}};
}
Error rejected(const std::exception& error) {
  return {Code::kInternal,
          "DatabaseRejected",
          fmt::format("A database call failed: {}", error.what()),
          {},
          {},
          {}};
}
Error outcome_unknown() {
  return {Code::kUnavailable,
          "CommitUnknown",
          "The connection was lost during COMMIT; the change may have been kept. Repeat it with the same "
          "idempotency key.",
          {},
          1,
          {}};
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, std::min(text.find('\n'), size_t{200})));
}

// SQLSTATE classes: https://www.postgresql.org/docs/15/errcodes-appendix.html
Error classify(const pqxx::sql_error& error) {
  std::string_view state = error.sqlstate();
  std::string what = fmt::format("{} ({})", first_line(error.what()), state);
  if (state.starts_with("08") || state.starts_with("57P") || state == "25P03") return lost(what);
  // Lock and statement timeouts, serialization, deadlock, out of memory, disk, connections or locks.
  if (state == "55P03" || state == "57014" || state.starts_with("40") || state.starts_with("53"))
    return busy(what);
  return {Code::kInternal, "DatabaseRejected", "The database refused a statement: " + what, {}, {}, {}};
}

// A server that vanishes from the network is given up after about ten seconds; libpq itself would wait for
// ever.
std::string connect_string(const ConnectOptions& options) {
  bool uri = options.url.starts_with("postgres://") || options.url.starts_with("postgresql://");
  std::string out = options.url;
  char separator = !uri ? ' ' : out.find('?') == std::string::npos ? '?' : '&';
  int64_t seconds = std::max<int64_t>(2, options.connect_timeout.count() / 1000);  // libpq's smallest is 2
  for (const auto& setting : {fmt::format("connect_timeout={}", seconds),
                              std::string("tcp_user_timeout=10000"), std::string("keepalives_idle=5"),
                              std::string("keepalives_interval=2"), std::string("keepalives_count=3")}) {
    out += separator + setting;
    if (uri) separator = '&';
  }
  return out;
}

}  // namespace

Connection::Connection(ConnectOptions options) : options_(std::move(options)) {
  CHECK(std::ranges::all_of(options_.schema, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; }),
        "schema {}", options_.schema);
}
Connection::~Connection() = default;

void Connection::disconnect() {
  connection_.reset();
}

bool Connection::connected() const {
  return connection_ != nullptr && connection_->is_open();
}

pqxx::connection_base& Connection::raw() {
  return session();
}

Session& Connection::session() {
  if (connected()) return *connection_;
  connection_.reset();
  auto fresh = std::make_unique<Session>(connect_string(options_));
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
  fresh->inhibit_reactivation(true);  // a silent reconnection would lose these settings and open transactions
#pragma clang diagnostic pop
  pqxx::nontransaction setup(*fresh);
  std::string settings = fmt::format(
      "SET client_encoding = 'UTF8'; SET timezone = 'UTC'; SET bytea_output = 'hex';"
      // Statements go by key. Left to itself the server plans those with an array of one afresh each time.
      "SET plan_cache_mode = force_generic_plan;"
      "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {};"
      "SET application_name = {};",
      options_.statement_timeout.count(), options_.lock_timeout.count(),
      options_.idle_in_transaction_timeout.count(), setup.quote(options_.application_name));
  if (!options_.schema.empty()) settings += fmt::format("SET search_path = {};", options_.schema);
  setup.exec(settings);
  setup.commit();
  connection_ = std::move(fresh);
  return *connection_;
}

std::optional<Error> Connection::run(const std::function<bool(Tx&)>& body) {
  bool committing = false;
  auto failed = [&]() -> std::optional<Error> {
    try {
      Tx tx(*this);
      try {
        const bool keep = body(tx);
        CHECK(keep || !tx.committed(), "an error after its transaction was committed");
        if (keep)
          tx.commit();
        else
          tx.abort();
      } catch (...) {
        committing = tx.committing();
        throw;
      }
      return std::nullopt;
    } catch (const pqxx::broken_connection& error) {
      connection_.reset();
      return committing ? outcome_unknown() : lost(first_line(error.what()));
    } catch (const pqxx::transaction_rollback& error) {
      return busy(first_line(error.what()));
    } catch (const pqxx::sql_error& error) {
      bool open = connected();
      if (!open) connection_.reset();
      if (!open && committing) return outcome_unknown();
      return open ? classify(error) : lost(first_line(error.what()));
    } catch (const std::exception& error) {
      connection_.reset();
      return committing ? outcome_unknown() : rejected(error);
    }
  }();
  // Whatever went wrong: nobody gets a connection with a transaction of another's in it.
  if (connection_ && !connection_->idle()) connection_.reset();
  return failed;
}

std::optional<Error> run_read(Connection& connection,
                              const std::function<void(pqxx::nontransaction&)>& body) {
  std::optional<Error> failed;
  for (int attempt = 0; attempt < 2; ++attempt) {
    pqxx::connection_base* raw = nullptr;
    try {
      raw = &connection.raw();
      pqxx::nontransaction reader(*raw);
      body(reader);
      reader.commit();
      return std::nullopt;
    } catch (const pqxx::broken_connection& error) {
      failed = lost(first_line(error.what()));
    } catch (const pqxx::sql_error& error) {
      if (raw != nullptr && raw->is_open()) return classify(error);
      failed = lost(first_line(error.what()));
    } catch (const std::exception& error) {
      connection.disconnect();
      return rejected(error);
    }
    connection.disconnect();
    if (raw == nullptr) break;  // not even a fresh one
  }
  return failed;
}

}  // namespace nodus::pg
