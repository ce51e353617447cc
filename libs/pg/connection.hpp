// The owner of libpqxx. A Connection is used by one thread at a time; it connects lazily and again after it
// was lost. Errors:
//   Unavailable/DatabaseUnavailable  refused, or lost before COMMIT: nothing was kept; a retry may help
//   Unavailable/DatabaseBusy         timed out, deadlock, out of resources: rolled back; a retry may help
//   Unavailable/CommitUnknown        lost during COMMIT: perhaps kept; only what is idempotent may be
//   repeated Internal/DatabaseRejected        a constraint or a statement at fault: a retry cannot help
#pragma once

#include <functional>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <type_traits>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/pg/tx.hpp"

namespace nodus::pg {

struct ConnectOptions {
  std::string url;     // libpq connection string or URI
  std::string schema;  // becomes the search_path; [a-z_]+
  std::string application_name;
  Millis connect_timeout{3'000};
  Millis statement_timeout{4'000};
  Millis lock_timeout{2'000};
  Millis idle_in_transaction_timeout{3'000};
};

class Session;

class Connection {
 public:
  explicit Connection(ConnectOptions options);
  ~Connection();

  // Runs body(Tx&) in one transaction. Commits when body returns a value (and has not committed itself),
  // aborts when it returns an error or throws. A pqxx exception becomes an Error here and goes no further.
  template <class Body>
  auto with_tx(Body&& body) -> std::invoke_result_t<Body, Tx&> {
    using R = std::invoke_result_t<Body, Tx&>;
    R result{std::unexpect, Error{}};
    auto failed = run([&](Tx& tx) {
      result = body(tx);
      return result.has_value();
    });
    if (failed) return std::unexpected(std::move(*failed));
    return result;
  }

  // For LISTEN and other uses outside transactions. Throws pqxx exceptions.
  pqxx::connection_base& raw();
  Session& session();  // the same; for Tx
  bool connected() const;
  void disconnect();

 private:
  std::optional<Error> run(const std::function<bool(Tx&)>& body);

  ConnectOptions options_;
  std::unique_ptr<Session> connection_;
};

// A fixed number of connections. acquire() waits up to `patience`, else Unavailable/DatabasePoolExhausted.
class Pool {
 public:
  Pool(ConnectOptions options, int size);
  ~Pool();

  class Lease {  // gives the connection back when it goes away
   public:
    Lease(Pool* pool, Connection* connection) : pool_(pool), connection_(connection) {}
    Lease(Lease&& other) noexcept
        : pool_(other.pool_), connection_(std::exchange(other.connection_, nullptr)) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    Connection& operator*() const { return *connection_; }
    Connection* operator->() const { return connection_; }

   private:
    Pool* pool_;
    Connection* connection_;
  };
  Result<Lease> acquire(Millis patience = Millis(2'000));

  template <class Body>
  auto with_tx(Body&& body) -> std::invoke_result_t<Body, Tx&> {
    auto lease = acquire();
    if (!lease) return std::unexpected(std::move(lease.error()));
    return (*lease)->with_tx(std::forward<Body>(body));
  }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nodus::pg
