// The audit log: who changed what, and who was refused. Rows are written behind the requests, in batches, by
// a thread of its own; a row is never lost in silence:
//   - until a batch is committed its rows stand in a spool file too (when one is configured), which the next
//     start takes up: the end of this process loses nothing, the end of the machine what its disk had not
//     yet;
//   - the buffer is bounded; when it is full (the database is away) requests that change something are
//   refused
//     before they run, so nothing happens that could not be written down.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/ids.hpp"
#include "libs/pg/connection.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::lifecycle {

struct AuditOptions {
  std::string spool;  // path of the file; empty: none, and a crash loses up to `flush_every`
  size_t capacity = 20'000;
  size_t batch = 500;
  Millis flush_every{200};
};

struct AuditRecord {
  Instant at;  // when the request came
  std::string id;
  std::string org;
  std::string key_id;  // "operator" for the operator's commands
  std::string key_name;
  std::string role;
  std::string project;  // its name
  std::string method;
  std::string route;
  std::string object;
  int status = 0;      // HTTP; 0: under way, or the client left before an answer
  std::string reason;  // of a refusal before the handler
  std::string peer;
};

struct AuditQuery {
  std::string key;  // name or uid; empty in these: all
  std::string project;
  std::string route;
  std::string after;  // AuditPage::next of the page before
  int limit = 500;
};
struct AuditPage {
  std::vector<AuditRecord> records;  // newest first
  std::string next;                  // empty: that was all
};

class AuditLog {
 public:
  AuditLog(pg::Pool& pool, AuditOptions options);
  ~AuditLog();  // writes what is left, if the database answers

  // Opens the spool and takes up what a process before left. Unavailable/AuditSpoolUnavailable.
  Result<void> start();
  bool room() const;             // for a change that is about to run
  void add(AuditRecord record);  // does not wait for the database
  Result<void> flush();          // writes all that is waiting, now
  Result<AuditPage> page(const OrgId& org, const AuditQuery& query);

 private:
  void run(const std::stop_token& stop);
  Result<size_t> write_batch();  // how many were written

  pg::Pool& pool_;
  const AuditOptions options_;
  metrics::Counter unspooled_;  // in memory only until written
  mutable std::mutex mutex_;
  std::mutex writing_;  // one batch at a time
  std::condition_variable_any changed_;
  std::deque<AuditRecord> waiting_;
  int spool_ = -1;
  bool spooled_ = false;  // the file is not empty
  std::jthread thread_;
};

Result<void> write_audit(pg::Tx& tx, const std::vector<AuditRecord>& records);

}  // namespace nodus::lifecycle
