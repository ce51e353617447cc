#include "libs/bus/kafka_relay.hpp"

#include <fmt/core.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "libs/base/check.hpp"
#include "libs/bus/backoff.hpp"
#include "libs/bus/kafka_client.hpp"
#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::bus {
namespace {

constexpr int kWindow = 1'000;  // messages of one partition that wait for their reports together
constexpr Millis kIdle{100};    // without a nudge: another replica may have written
constexpr Millis kFollower{1'000};
constexpr Millis kBrokerPatience{2'000};

// What one message waits for; the producer hands it back with the report.
struct Pending {
  int64_t position = 0;
  bool reported = false;
  bool delivered = false;
};

struct Window {
  int partition = 0;
  std::vector<eventlog::Recorded> events;
  std::vector<Pending> pending;
};

class Reports final : public RdKafka::DeliveryReportCb {
 public:
  void dr_cb(RdKafka::Message& message) override {
    auto& pending = *static_cast<Pending*>(message.msg_opaque());
    pending.reported = true;
    pending.delivered = message.err() == RdKafka::ERR_NO_ERROR;
    --outstanding;
    if (!pending.delivered) why = message.errstr();
  }
  int64_t outstanding = 0;
  std::string why;  // of the last message that was not delivered
};

// One thread. One relay of a log is active at a time: it holds a session advisory lock. A second one that
// believes to be active (its session broke a moment ago) can only repeat messages, which consumers drop.
class KafkaRelay final : public Relay {
 public:
  KafkaRelay(const TransportOptions& options, const std::string& topic, eventlog::EventLog& own,
             pg::ConnectOptions database)
      : topic_(topic),
        name_(kafka::topic_name(options, topic)),
        own_(own),
        connection_(std::move(database)),
        age_(metrics::gauge_callback(
            "nodus_bus_oldest_unpublished_seconds", "Age of the oldest event that is not on the bus",
            [this] { return static_cast<double>(oldest_unpublished().count()) / 1e6; }, {{"topic", topic}})),
        published_(metrics::counter("nodus_bus_published_total", "Messages that the broker has acknowledged",
                                    {{"topic", topic}})) {
    positions_.resize(static_cast<size_t>(own.partitions()));
  }

  Result<> open(const std::string& brokers) {
    // Order under retries: one request in flight, retried until the broker answers, never given up by age.
    auto conf = kafka::make_conf({{"bootstrap.servers", brokers},
                                  {"acks", "all"},
                                  {"enable.idempotence", "false"},
                                  {"max.in.flight.requests.per.connection", "1"},
                                  {"message.timeout.ms", "0"},
                                  {"retry.backoff.ms", "100"},
                                  {"reconnect.backoff.ms", "50"},
                                  {"reconnect.backoff.max.ms", "1000"},
                                  {"socket.timeout.ms", "10000"},
                                  {"linger.ms", "0"},
                                  {"queue.buffering.max.messages", "100000"},
                                  {"compression.type", "lz4"}});
    std::string why;
    CHECK(
        conf->set("dr_cb", static_cast<RdKafka::DeliveryReportCb*>(&reports_), why) == RdKafka::Conf::CONF_OK,
        "{}", why);
    producer_.reset(RdKafka::Producer::create(conf.get(), why));
    if (!producer_) return kafka::unavailable("A Kafka producer cannot be made", why);
    thread_ = std::thread([this] { run(); });
    return {};
  }

  ~KafkaRelay() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
    age_.reset();
  }

  void nudge() override {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(nudged_, true)) return;  // the thread knows already
    }
    wake_.notify_one();
  }

  Micros oldest_unpublished() const override {
    const int64_t oldest = oldest_us_.load();
    if (oldest == 0) return Micros(0);
    return std::max(Micros(0), SystemClock().now() - from_micros(oldest));
  }

 private:
  void run() {
    Backoff backoff(Millis(50), Millis(2'000));
    while (!stopping()) {
      auto published = publish_some();
      if (!published) {
        log::warn("bus.relay_waits", {{"topic", topic_}, {"error", published.error().message}});
        leading_ = false;
        connection_.disconnect();  // gives the lock back, so that a replica in better health may try
        pause(backoff.next(), false);
        continue;
      }
      backoff.reset();
      if (*published == 0) pause(leading_ ? kIdle : kFollower, leading_);
    }
    producer_->purge(RdKafka::Producer::PURGE_QUEUE | RdKafka::Producer::PURGE_INFLIGHT);
    producer_->flush(1'000);
  }

  // How many messages of this log reached the broker and were recorded; 0 also when another relay is active.
  Result<int64_t> publish_some() {
    if (!topic_ready_) {
      if (auto made = kafka::ensure_topic(*producer_, name_, own_.partitions(), kBrokerPatience); !made) {
        note_oldest_waiting();
        return std::unexpected(std::move(made.error()));
      }
      topic_ready_ = true;
    }
    if (auto leads = lead(); !leads || !*leads) {
      oldest_us_ = 0;
      if (!leads) return std::unexpected(std::move(leads.error()));
      return 0;
    }
    auto windows = read_windows();
    if (!windows) return std::unexpected(std::move(windows.error()));
    note_oldest(*windows);
    if (windows->empty()) return 0;
    produce(*windows);
    await_reports();
    if (failpoint("bus.relay_after_publish"))
      return kafka::unavailable("bus.relay_after_publish", "failpoint");
    return record(*windows);
  }

  Result<bool> lead() {
    if (leading_) return true;
    auto leads = connection_.with_tx([&](pg::Tx& tx) -> Result<bool> {
      // The schema's oid tells logs of one database apart.
      const auto row = tx.exec1(
          "SELECT pg_try_advisory_lock(hashtext('nodus relay'), "
          "(SELECT oid::bigint - 2147483648 FROM pg_namespace WHERE nspname = current_schema())::integer), "
          "pg_backend_pid()");
      if (!row[0].as<bool>()) return false;
      backend_ = row[1].as<int>();
      std::ranges::fill(positions_, 0);
      for (const auto& offset : tx.exec("SELECT log_partition, position FROM relay_offsets"))
        positions_.at(offset[0].as<size_t>()) = offset[1].as<int64_t>();
      return true;
    });
    if (leads) leading_ = *leads;
    return leads;
  }

  Result<std::vector<Window>> read_windows() {
    std::vector<Window> windows;
    for (int partition = 0; partition < own_.partitions(); ++partition) {
      auto events = own_.read(partition, positions_[static_cast<size_t>(partition)], kWindow);
      if (!events) return std::unexpected(std::move(events.error()));
      if (events->empty()) continue;
      Window window{partition, std::move(*events), {}};
      window.pending.resize(window.events.size());
      windows.push_back(std::move(window));
    }
    return windows;
  }

  void produce(std::vector<Window>& windows) {
    for (auto& window : windows) {
      for (size_t i = 0; i < window.events.size(); ++i) {
        if (!produce_one(window.events[i], window.pending[i])) break;  // nothing of it may overtake
      }
    }
  }

  bool produce_one(const eventlog::Recorded& event, Pending& pending) {
    pending.position = event.position;
    std::unique_ptr<RdKafka::Headers> headers(RdKafka::Headers::create());
    headers->add(kafka::kPosition, std::to_string(event.position));
    headers->add(kafka::kVersion, std::to_string(event.version));
    headers->add(kafka::kType, event.type);
    headers->add(kafka::kAtMicros, std::to_string(to_micros(event.at)));
    const auto at_ms = std::chrono::duration_cast<Millis>(event.at.time_since_epoch()).count();
    const auto code = producer_->produce(
        name_, event.partition, RdKafka::Producer::RK_MSG_COPY, const_cast<char*>(event.payload.data()),
        event.payload.size(), event.stream.data(), event.stream.size(), at_ms, headers.get(), &pending);
    if (code != RdKafka::ERR_NO_ERROR) {
      reports_.why = err2str(code);
      return false;
    }
    headers.release();  // the producer's now
    ++reports_.outstanding;
    return true;
  }

  // Until every message is reported, however long the broker is away; the log keeps the rest meanwhile.
  void await_reports() {
    bool purged = false;
    while (reports_.outstanding > 0) {
      producer_->poll(50);
      if (purged || !stopping()) continue;
      producer_->purge(RdKafka::Producer::PURGE_QUEUE | RdKafka::Producer::PURGE_INFLIGHT);
      purged = true;  // what was on its way is published again by the next relay, and dropped as a repeat
    }
  }

  Result<int64_t> record(const std::vector<Window>& windows) {
    int64_t count = 0;
    auto positions = positions_;
    bool whole = true;
    for (const auto& window : windows) {
      for (const auto& pending : window.pending) {
        if (!pending.delivered) {
          whole = false;
          break;
        }
        positions[static_cast<size_t>(window.partition)] = pending.position;
        ++count;
      }
    }
    auto stored = connection_.with_tx([&](pg::Tx& tx) -> Result<> {
      if (tx.exec1("SELECT pg_backend_pid()")[0].as<int>() != backend_)
        return fail(Code::kUnavailable, "RelayLockLost", "The session that held the relay's lock is gone.");
      for (const auto& window : windows)
        tx.exec_params(
            "INSERT INTO relay_offsets (log_partition, position) VALUES ($1, $2) "
            "ON CONFLICT (log_partition) DO UPDATE SET position = excluded.position",
            window.partition, positions[static_cast<size_t>(window.partition)]);
      return {};
    });
    if (!stored) return std::unexpected(std::move(stored.error()));
    positions_ = positions;
    published_.add(static_cast<double>(count));
    if (whole || stopping()) return count;
    topic_ready_ = false;  // it may have been deleted
    return kafka::unavailable("A message was not published", reports_.why);
  }

  void note_oldest(const std::vector<Window>& windows) {
    int64_t oldest = 0;
    for (const auto& window : windows) {
      const int64_t at = to_micros(window.events.front().at);
      if (oldest == 0 || at < oldest) oldest = at;
    }
    oldest_us_ = oldest;
  }

  // The broker was never reached since the start: what waits is known from the log alone.
  void note_oldest_waiting() {
    auto leads = lead();
    if (!leads || !*leads) return;
    if (auto windows = read_windows()) note_oldest(*windows);
  }

  void pause(Millis wait, bool nudge_ends_it) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, wait, [&] { return stopping_ || (nudge_ends_it && nudged_); });
    nudged_ = false;
  }

  bool stopping() {
    std::lock_guard lock(mutex_);
    return stopping_;
  }

  const std::string topic_;
  const std::string name_;
  eventlog::EventLog& own_;
  std::atomic<int64_t> oldest_us_ = 0;  // writer's clock; 0: all is published

  // Of thread_.
  pg::Connection connection_;  // its session holds the lock
  Reports reports_;
  std::unique_ptr<RdKafka::Producer> producer_;
  bool topic_ready_ = false;
  bool leading_ = false;
  int backend_ = 0;                 // the session that holds the lock
  std::vector<int64_t> positions_;  // per log partition: published and recorded

  std::shared_ptr<void> age_;
  metrics::Counter published_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool nudged_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Relay>> make_kafka_relay(const TransportOptions& options, const std::string& topic,
                                                eventlog::EventLog& own, pg::ConnectOptions own_database) {
  if (options.partitions != own.partitions())
    return fail(
        Code::kInvalid, "InvalidPartitions",
        fmt::format("log.partitions is {}, but the log has {}.", options.partitions, own.partitions()));
  auto relay = std::make_unique<KafkaRelay>(options, topic, own, std::move(own_database));
  if (auto opened = relay->open(options.kafka_brokers); !opened)
    return std::unexpected(std::move(opened.error()));
  return relay;
}

}  // namespace nodus::bus
