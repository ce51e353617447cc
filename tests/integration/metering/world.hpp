// Metering on a real PostgreSQL, fed by a real log of the scheduler over the bus in log mode. The clock moves
// only when told.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libs/bus/bus.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "services/metering/adapters/audit.hpp"
#include "services/metering/adapters/inputs.hpp"
#include "services/metering/adapters/postgres/deadline_rows.hpp"
#include "services/metering/adapters/postgres/read_models.hpp"

namespace nodus::metering::test {

inline constexpr MoneySecond kT0 = 1'800'000'000;

bool eventually(const std::function<bool()>& condition, Seconds deadline = Seconds(60));

// The scheduler, as far as metering hears of it. Instants are seconds after kT0.
class Scheduler {
 public:
  Scheduler(const std::string& url, const Clock& clock);
  void offer(const std::string& uid, int64_t start, const std::string& max_cost = "",
             const std::string& org = "acme", bool recovery = false);
  void raise(const std::string& uid, int64_t start, const std::string& max_cost, double at);
  void lapse(const std::string& uid, int64_t start, double at);
  void reserve(const std::string& uid, int64_t start, double reserved);
  void started(const std::string& uid, int64_t start, double reserved, double started);
  void stopping(const std::string& uid, int64_t start, double reserved, double started, double stopping);
  void decline(const std::string& uid, int64_t start, double last_activity);
  void release(const std::string& uid, int64_t start, double reserved, double started, double stopping,
               double released);
  // `saved`: the size of a new restore point; below zero: none.
  void save(const std::string& uid, int64_t start, double reserved, double released, int64_t saved,
            bool deleted = false);
  void drop(const std::string& uid, int64_t start, double at);  // deleted while it held no slot
  void raw(const std::string& stream, std::string type, std::string payload);
  int64_t published() const;  // how many events there are

 private:
  template <class Message>
  void publish(const Message& message);
  pg::ConnectOptions database_;
  pg::Pool pool_;
  std::unique_ptr<eventlog::EventLog> log_;
};

class World {
 public:
  World();                                 // a fresh database with an example price and no money
  explicit World(const std::string& url);  // one that exists, for a child process

  void credit(const std::string& amount, const std::string& id, const std::string& org = "acme");
  void put_budget(const std::string& name, Money limit, bool create = true);  // Total, of project web
  void consume();                                                             // starts the consumer
  void stop_consumer() { consumer_.reset(); }
  void await_all();         // everything that the scheduler published is applied or parked
  void at(double seconds);  // sets the clock; never back
  void run_deadlines();     // until nothing is due
  void forget_prices();     // published ones are immutable, so only a test can
  std::vector<std::string> events(const std::string& stream);  // short type names
  int64_t count(const std::string& sql);
  std::string text(const std::string& sql);
  testing::AssertionResult audited();

  std::string url;
  ManualClock clock{to_instant(kT0)};
  pg::ConnectOptions database;
  pg::Pool pool;
  std::unique_ptr<eventlog::EventLog> log;
  PostgresLookups lookups;
  PostgresProjections projections;
  PostgresDeadlineRows rows;
  Watermark watermark;
  Works works;
  Scheduler scheduler;
  std::unique_ptr<Deadlines> deadlines;

 private:
  std::unique_ptr<bus::Consumer> consumer_;
};

}  // namespace nodus::metering::test
