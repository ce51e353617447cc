// The clock of lifecycle: every deadline's row is also in a wheel in memory, and what is due goes as a
// command through the Batcher. Rows are derived from state, so a deadline that fires twice, late or after a
// restart does the same. Never early.
//
//   rows ──load, changed streams, what is near──▶ wheel ──due: by kind, bounded in rate──▶ Batcher ──▶ commit
//     ▲                                                                                                  │
//     └── written with the events ◀──────────────────────────────────────────────── changed(events) ◀────┘
//
// A row goes by a change of state, never by firing: a deadline that fired is read again, and one whose row
// still stands is tried again a second later. The rows of the next second are read on every poll too, so
// whatever the wheel did not hear of (another replica's commit) fires all the same.
#pragma once

#include <condition_variable>
#include <set>
#include <unordered_map>

#include "libs/base/clock.hpp"
#include "libs/deadlines/loop.hpp"
#include "libs/deadlines/wheel.hpp"
#include "libs/eventlog/batcher.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::lifecycle {

struct DeadlineOptions {
  Millis poll{500};
  int rate_per_s = 5'000;  // decisions at most: what was due during an outage does not come all at once
};

class Deadlines {
 public:
  Deadlines(eventlog::Batcher& batcher, pg::Pool& pool, const Clock& clock, DeadlineOptions options);
  ~Deadlines();

  void start();
  void stop();  // returns when nothing of it is under way
  // What was committed; from any thread, also before start() and after stop().
  void changed(const std::vector<eventlog::Recorded>& events);

 private:
  using Key = deadlines::Key;
  using Armed = deadlines::Armed;
  struct Name {  // a Sandbox's uid, as 128 bits
    uint64_t high = 0, low = 0;
    auto operator<=>(const Name&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const { return key.high ^ (key.low + key.kind); }
  };
  struct Fired {
    Instant due;           // of the row
    bool deciding = true;  // given to the Batcher and not answered
  };

  static std::optional<Key> key_of(const std::string& stream);
  static std::vector<Armed> rows_of(const pqxx::result& rows);

  Millis fire();  // the step of one thread: no database, so that nothing holds it up
  Millis read();  // the step of the other
  size_t allowance();
  void decided(const Armed& fired, const Result<std::string>& answer);
  Result<void> load();
  Result<void> read_changed();
  Result<void> read_near();
  void keep(const Armed& row);  // under mutex_

  eventlog::Batcher& batcher_;
  pg::Pool& pool_;
  const Clock& clock_;
  const DeadlineOptions options_;

  std::mutex mutex_;
  deadlines::Wheel wheel_;
  std::unordered_map<Key, Fired, Hash> fired_;  // until their rows have changed
  std::set<Name> changed_;                      // to be read again; too many: everything is read again
  bool loaded_ = false;
  int deciding_ = 0;
  std::condition_variable idle_;  // nothing is with the Batcher

  double tokens_ = 0;  // of the firing thread
  Micros filled_{0};
  Micros looked_{0};  // of the reading thread: when it last read what is near
  std::shared_ptr<void> armed_gauge_;
  deadlines::Loop fire_loop_, read_loop_;
};

}  // namespace nodus::lifecycle
