// Two services on one database, one that writes (lifecycle) and one that reads (scheduler), and a transport
// between them.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libs/bus/bus.hpp"
#include "libs/eventlog/postgres_log.hpp"

namespace nodus::bus::test {

inline constexpr int kPartitions = 4;

// Waits for a condition; false when it does not come true within the deadline.
bool eventually(const std::function<bool()>& condition, Seconds deadline = Seconds(40));

// The transport's options; for kafka, a topic prefix that nobody used before on the shared broker.
TransportOptions fresh_transport(const std::string& kind);

// The value of the first series whose line in /metrics starts with `prefix`; 0: none.
double metrics_value(const std::string& prefix);

// One service's end of the database: its schema, log and pool.
struct Service {
  Service(const std::string& url, const std::string& name);
  pg::ConnectOptions database;
  SystemClock clock;
  pg::Pool pool;
  std::unique_ptr<eventlog::EventLog> log;
};

// What the reader recorded of each message, in the order in which it was applied.
struct Effect {
  std::string stream;
  int64_t version = 0;
  bool operator==(const Effect&) const = default;
};

class World {
 public:
  explicit World(const std::string& kind);  // a fresh database
  World(const std::string& url, TransportOptions transport) : url_(url), transport_(std::move(transport)) {
    open();
  }
  ~World();

  // Appends `count` events of a type to a stream, one Work each, in one batch.
  void append(const std::string& stream, int count = 1, const std::string& type = "plain");
  void start_relay();
  void stop_relay() { relay_.reset(); }

  // A consumer of the service `scheduler`. Types: "poison" cannot be decided until healed; "rejected" makes
  // the database refuse the transaction until healed; "later" is Unavailable until healed; "ignored" is
  // not for us; "unroutable" fails in the route until healed.
  std::unique_ptr<Consumer> consume(ConsumerOptions options = {});
  std::unique_ptr<Consumer> consume(std::function<Result<std::unique_ptr<Source>>(OffsetOf)> open,
                                    ConsumerOptions options = {});
  Result<std::unique_ptr<Source>> source(OffsetOf offset_of);
  Route route();

  std::vector<Effect> effects();
  std::vector<int64_t> versions_of(const std::string& stream);
  // Every version of every stream once, in order, up to what was appended.
  testing::AssertionResult applied_exactly_once();
  bool wait_for_effects(size_t count);
  int64_t scalar(const std::string& sql);  // in the schema scheduler
  void execute(const std::string& sql);    // with the schema lifecycle

  const std::string& url() const { return url_; }
  const TransportOptions& transport() const { return transport_; }
  Service& reader() { return *reader_; }
  Service& writer() { return *writer_; }
  Relay& relay() { return *relay_; }
  std::atomic<bool> healed = false;

 private:
  void open();
  std::string url_;
  TransportOptions transport_;
  std::unique_ptr<Service> writer_;
  std::unique_ptr<Service> reader_;
  std::mutex mutex_;
  std::map<std::string, int64_t> appended_;
  std::shared_ptr<Relay> relay_;
};

// Runs the test Child.DISABLED_<name> of this program in a process of its own, on the same database and
// transport (child_world() there). Answers its wait status.
int run_child(const std::map<std::string, std::string>& environment, const std::string& name, World& world);
std::unique_ptr<World> child_world();

}  // namespace nodus::bus::test
