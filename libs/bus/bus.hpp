// The bus: what one service appended to its log reaches the others, in order per stream, each exactly once in
// effect.
//
// Transports: `log` (consumers tail the other service's log through a granted view, woken by a doorbell) and
// `kafka` (a relay publishes from the log; consumers read topics). A topic is a service's log: "lifecycle",
// "scheduler", "metering". One contract suite runs on both.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libs/eventlog/event_log.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::bus {

struct Message {
  std::string topic;
  int partition = 0;
  int64_t position = 0;  // of the source log; the previous message of the partition has position - 1
  std::string stream;
  int64_t version = 0;
  std::string type;
  std::string payload;
  Instant at;
  std::string cursor;  // where the transport goes on after it (a Kafka offset); empty for `log`
};

struct Offset {
  int64_t position = 0;  // of the last message whose effect is committed
  std::string cursor;    // where the transport goes on; empty: from the start
};

// Delivers one topic. poll() is called by one thread; partitions may come and go (rebalance), and whenever
// one comes the source asks `offset_of` where to go on. Messages may be delivered again; never out of order
// in a partition.
class Source {
 public:
  virtual ~Source() = default;
  virtual Result<std::vector<Message>> poll(int max, Millis timeout) = 0;
  // The partitions that this reader has, and of each whether poll() has answered all there was when the last
  // one began. Only what the transport knows counts: an empty answer of a broker that is away does not.
  virtual std::map<int, bool> at_end() const { return {}; }
  // Forget the in-memory place of a partition and ask offset_of again (after a failed commit).
  virtual void rewind(int partition) = 0;
};
using OffsetOf = std::function<Result<Offset>(int partition)>;

// Publishes a service's own log. For `log` this rings the doorbell; for `kafka` it produces and stores how
// far it got.
class Relay {
 public:
  virtual ~Relay() = default;
  virtual void nudge() = 0;                       // something was committed; never blocks
  virtual Micros oldest_unpublished() const = 0;  // age; zero when all is published
};

struct TransportOptions {
  std::string kind = "log";             // log | kafka
  std::string kafka_brokers;            // host:port,…
  std::string topic_prefix = "nodus.";  // Kafka topic = prefix + topic + ".v1"
  int partitions = 4;
};

// The relay, and the consumer below, own their threads from construction to destruction. The service's
// EventLog::on_commit hook calls nudge(). Neither needs its database or broker to be up yet.
Result<std::unique_ptr<Relay>> make_relay(const TransportOptions&, const std::string& topic,
                                          eventlog::EventLog& own, pg::ConnectOptions own_database);
Result<std::unique_ptr<Source>> make_source(const TransportOptions&, const std::string& topic,
                                            const std::string& consumer_group, pg::ConnectOptions database,
                                            OffsetOf offset_of);

// Maps a message to the work it causes in this service; nullopt: not for us (the offset still advances). An
// error here, or from the Work's decide(), parks the message and every later one of its stream, unless it is
// retryable(): then the whole batch waits and is tried again. The Work's key is ignored: a message is applied
// once, by its position.
using Route = std::function<Result<std::optional<eventlog::Work>>(const Message&)>;

struct Parked {
  int64_t id = 0;
  Message message;
  std::string error;
  Instant at;
};

struct ConsumerOptions {
  int max_batch = 256;
  Millis poll{100};
};

// Drives one topic into one service: poll → route → EventLog::run_together with the offset in the same
// transaction. Database errors are retried with capped, jittered back-off (the offset did not move); a Work
// that cannot be applied is parked with its stream, visible, replayable, and stops nobody else. A gap in
// positions stops that partition and is visible as the metric nodus_bus_partition_stopped.
class Consumer {
 public:
  virtual ~Consumer() = default;
  virtual void stop() = 0;  // returns when the thread has ended
};
std::unique_ptr<Consumer> make_consumer(const std::string& topic,
                                        std::function<Result<std::unique_ptr<Source>>(OffsetOf)> open,
                                        eventlog::EventLog& own, pg::Pool& own_database, Route route,
                                        ConsumerOptions options = {});

// Operator commands (`nodus-<service> parked list|replay|skip`).
Result<std::vector<Parked>> list_parked(pg::Pool& own_database, int limit);
// Applies a stream's parked messages in order; stops at the first that fails again. Answers how many were
// applied.
Result<int> replay_parked(eventlog::EventLog& own, pg::Pool& own_database, const Route& route,
                          const std::string& topic, const std::string& stream);
Result<int> skip_parked(pg::Pool& own_database, const std::string& topic, const std::string& stream);

}  // namespace nodus::bus
