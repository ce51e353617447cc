// The event log: streams of events with a head row each, written in batches, read by position.
//
//   Work (streams, decide) ──▶ run(): lock heads ─▶ decide each ─▶ insert events ─▶ positions ─▶ COMMIT ─▶
//   answers
//
// Guarantees (one contract suite runs them against every implementation):
//  - Each log partition numbers its events 1, 2, 3 … without gaps, in commit order. A reader's cursor is one
//  number.
//  - A stream lives in one partition (hash of its name; the number of partitions is fixed for good), and its
//  events
//    appear there in version order.
//  - One failing Work of a batch fails alone and leaves nothing behind.
//  - A Work with a key that was accepted before is not decided again: it gets the stored answer; the same key
//  with
//    another input_hash is Conflict/IdempotencyKeyReused. Refused Works store nothing.
//  - A head row holds the encoded state, so that loading costs one row whatever the history.
// Source: ARCHITECTURE.md, "One pattern everywhere".
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/pg/tx.hpp"

namespace nodus::eventlog {

struct Event {
  std::string type;     // Protobuf full name, e.g. nodus.lifecycle.v1.SandboxCreated
  std::string payload;  // serialised message; never hashed or compared
};

struct Recorded {
  int partition = 0;     // [0, partitions())
  int64_t position = 0;  // 1, 2, 3 … within the partition
  std::string stream;    // e.g. sandbox/6f1c…; at most 256 bytes
  int64_t version = 0;   // 1, 2, 3 … within the stream
  std::string type;
  std::string payload;
  Instant at;  // the writer's clock
};

struct Head {
  std::string stream;
  int64_t version = 0;  // 0: nothing was ever appended
  int state_version =
      0;  // of the encoding of `state`; a reader that meets a newer one must refuse the stream
  std::string state;
};

// What a decision sees and does. Valid during decide() only.
class Unit {
 public:
  virtual ~Unit() = default;
  // The head of a stream named in Work::streams, with everything that earlier Works of this batch did. CHECKs
  // the name.
  virtual const Head& head(const std::string& stream) = 0;
  // Appends events (possibly none) and replaces the state. Takes effect only if decide() returns a value.
  virtual void append(const std::string& stream, std::vector<Event> events, std::string state,
                      int state_version) = 0;
  // The transaction, for reading rows inside decide(), never for writing; null in the memory implementation.
  virtual pg::Tx* sql() = 0;
  // SQL writes (read models, deadlines) in the same transaction, run in order right after decide() returned a
  // value, so later Works of the batch read them.
  virtual void project(std::function<void(pg::Tx&)> write) = 0;
  // A note for the hook of EventLog::on_append, if decide() returns a value.
  virtual void stage(std::any note) = 0;
};

struct Work {
  std::string key;         // idempotency key, scoped by the caller (e.g. "create/org/…"); empty: none
  std::string input_hash;  // sha256 of the canonical input; only with a key
  std::vector<std::string> streams;                  // every stream that decide() reads or writes
  std::function<Result<std::string>(Unit&)> decide;  // the answer is stored under the key
};

struct Ages {
  Micros oldest_transaction{0};  // of this service's role, in any state
};

class EventLog {
 public:
  virtual ~EventLog() = default;
  virtual int partitions() const = 0;

  // Decides all works in one transaction, in order, and answers in the same order. Works whose heads others
  // hold wait for a later round (so after the rest), at most a few seconds: then Unavailable/StreamBusy. On a
  // database error the batch is halved down to one, so decide() may be called more than once: it must not
  // change anything but its Unit. Unavailable/CommitUnknown: the connection was lost in COMMIT, the Work may
  // have been kept; it is safe to repeat if it has a key, or if its decide() yields nothing the second time.
  // Thread-safe.
  virtual std::vector<Result<std::string>> run(std::span<const Work> works) = 0;

  // As run(), but all in exactly one transaction together with `also` (consumer offsets), or nothing at all:
  // then the error says why. A Work whose decide() fails still fails alone. Heads are locked in sorted order,
  // waiting. The implementation in memory does not call `also`.
  virtual Result<std::vector<Result<std::string>>> run_together(std::span<const Work> works,
                                                                const std::function<void(pg::Tx&)>& also) = 0;

  // Events of a partition with position > after, ascending, at most `limit`.
  virtual Result<std::vector<Recorded>> read(int partition, int64_t after, int limit) = 0;
  virtual Result<std::vector<Recorded>> read_stream(const std::string& stream, int64_t after_version,
                                                    int limit) = 0;
  virtual Result<Head> head(const std::string& stream) = 0;
  virtual Result<int64_t> last_position(int partition) = 0;
  virtual Result<Ages> ages() = 0;

  // Called after each commit that appended, on the committing thread, outside of every lock. Set before use.
  void on_commit(std::function<void(const std::vector<Recorded>&)> hook) { on_commit_ = std::move(hook); }
  // Called in each transaction that staged notes, with all of them in order, after every decide() and before
  // positions are taken: what needs a lock over all writers holds it for as short as can be. Set before use.
  // The implementation in memory does not call it.
  void on_append(std::function<void(pg::Tx&, std::vector<std::any>&)> hook) { on_append_ = std::move(hook); }

 protected:
  std::function<void(const std::vector<Recorded>&)> on_commit_;
  std::function<void(pg::Tx&, std::vector<std::any>&)> on_append_;
};

int partition_of(std::string_view stream, int partitions);  // FNV-1a 64 of the name, modulo; fixed for good

}  // namespace nodus::eventlog
