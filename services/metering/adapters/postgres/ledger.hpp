// The ledger's tables: entries as events are appended, and the chain of seals over them. The SQL functions
// are in migrations/metering (0021_ledger), so that an auditor needs nothing but the tables and psql.
#pragma once

#include <any>
#include <optional>
#include <string>
#include <vector>

#include "libs/pg/connection.hpp"
#include "services/metering/domain/ledger.hpp"

namespace nodus::metering {

struct LedgerNote {  // staged on the Unit that appends the event
  LedgerEntry entry;
  std::string stream;
  int64_t version = 0;
};

// Writes the entries among the notes, and their lines, with one statement.
void write_ledger(pg::Tx& tx, const std::vector<std::any>& staged);

struct Sealed {
  int64_t entries = 0;  // sealed now
  int64_t seals = 0;
  std::string
      head;  // hash of the last seal, hex; empty: none. Kept elsewhere, it proves what follows from it
};
// Seals every entry that is certain. Safe to run at any time, by any number of replicas.
Result<Sealed> seal_ledger(pg::Pool& pool, Instant now);
// When the last seal was made.
Result<std::optional<Instant>> last_sealed(pg::Pool& pool);

struct SealFault {
  int64_t seal = 0;
  std::optional<int64_t> entry;  // none: the seal itself
  std::string what;
};
std::string to_string(const SealFault& fault);
struct Verdict {
  int64_t seals = 0;
  int64_t unsealed = 0;  // entries after the last seal
  std::string head;
  bool expected_found = true;  // the hash that was asked for is in the chain
  std::vector<SealFault> faults;
};
// `expected`: a hash that was written down, hex; empty: none.
Result<Verdict> verify_ledger(pg::Pool& pool, const std::string& expected);

}  // namespace nodus::metering
