#include "libs/bus/kafka_source.hpp"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <map>
#include <set>

#include "libs/base/check.hpp"
#include "libs/bus/kafka_client.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus::bus {
namespace {

constexpr Millis kBrokerPatience{2'000};
// How often the brokers are asked where the partitions end, and how long the answer is waited for.
constexpr Millis kAskEnds{200};
constexpr Millis kAskEndsAgain{2'000};  // after no answer
constexpr Millis kEndsPatience{500};

bool parse_int(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// A message that the relay did not write has no position; nullopt.
std::optional<Message> to_message(const std::string& topic, RdKafka::Message& raw) {
  auto* headers = raw.headers();
  if (headers == nullptr || raw.key() == nullptr) return std::nullopt;
  Message message;
  int64_t at_us = 0;
  bool position = false;
  bool version = false;
  bool at = false;
  for (const auto& header : headers->get_all()) {
    if (header.value() == nullptr) continue;
    const std::string_view value(static_cast<const char*>(header.value()), header.value_size());
    const auto name = header.key();
    if (name == kafka::kPosition) position = parse_int(value, message.position);
    if (name == kafka::kVersion) version = parse_int(value, message.version);
    if (name == kafka::kAtMicros) at = parse_int(value, at_us);
    if (name == kafka::kType) message.type = value;
  }
  if (!position || !version || !at || message.position < 1) return std::nullopt;
  message.topic = topic;
  message.partition = raw.partition();
  message.stream = *raw.key();
  message.payload.assign(static_cast<const char*>(raw.payload()), raw.len());
  message.at = from_micros(at_us);
  message.cursor = std::to_string(raw.offset() + 1);
  return message;
}

class KafkaSource final : public Source, RdKafka::RebalanceCb {
 public:
  KafkaSource(const TransportOptions& options, const std::string& topic, OffsetOf offset_of)
      : topic_(topic),
        name_(kafka::topic_name(options, topic)),
        partitions_(options.partitions),
        offset_of_(std::move(offset_of)) {}

  Result<> open(const std::string& brokers, const std::string& group) {
    auto conf = kafka::make_conf({{"bootstrap.servers", brokers},
                                  {"group.id", group},
                                  {"enable.auto.commit", "false"},
                                  {"enable.auto.offset.store", "false"},
                                  // A cursor that Kafka no longer has: from the start. What was applied is
                                  // dropped by position, and what is missing shows as a gap.
                                  {"auto.offset.reset", "earliest"},
                                  {"enable.partition.eof", "true"},
                                  {"session.timeout.ms", "6000"},
                                  {"heartbeat.interval.ms", "1000"},
                                  {"reconnect.backoff.ms", "50"},
                                  {"reconnect.backoff.max.ms", "1000"},
                                  {"fetch.wait.max.ms", "100"},
                                  {"fetch.error.backoff.ms", "50"},
                                  {"topic.metadata.refresh.interval.ms", "10000"},
                                  // Bounds the memory of messages fetched ahead.
                                  {"queued.max.messages.kbytes", "8192"}});
    std::string why;
    CHECK(conf->set("rebalance_cb", static_cast<RdKafka::RebalanceCb*>(this), why) == RdKafka::Conf::CONF_OK,
          "{}", why);
    consumer_.reset(RdKafka::KafkaConsumer::create(conf.get(), why));
    if (!consumer_) return kafka::unavailable("A Kafka consumer cannot be made", why);
    return {};
  }

  ~KafkaSource() override {
    if (consumer_) consumer_->close();  // leaves the group at once; calls rebalance_cb
  }

  Result<std::vector<Message>> poll(int max, Millis timeout) override {
    if (!subscribed_) {
      if (auto ready = subscribe(); !ready) return std::unexpected(std::move(ready.error()));
    }
    std::optional<Error> failed;
    if (!unplaced_.empty()) {
      if (auto placed = place(); !placed) failed = std::move(placed.error());
    }
    // Also with nothing placed: a member that does not poll is thrown out of the group.
    auto messages = consume(max, failed ? Millis(0) : timeout);
    ask_ends();
    if (failed && messages.empty()) return std::unexpected(std::move(*failed));
    return messages;
  }

  std::map<int, bool> at_end() const override { return at_end_; }

  void rewind(int partition) override {
    if (next_.erase(partition) > 0) unplaced_.insert(partition);
  }

 private:
  Result<> subscribe() {
    if (auto made = kafka::ensure_topic(*consumer_, name_, partitions_, kBrokerPatience); !made) return made;
    const auto code = consumer_->subscribe({name_});
    if (code != RdKafka::ERR_NO_ERROR)
      return kafka::unavailable("The topic " + name_ + " cannot be read", err2str(code));
    subscribed_ = true;
    return {};
  }

  void rebalance_cb(RdKafka::KafkaConsumer* consumer, RdKafka::ErrorCode code,
                    std::vector<RdKafka::TopicPartition*>& partitions) override {
    next_.clear();
    unplaced_.clear();
    if (code != RdKafka::ERR__ASSIGN_PARTITIONS) {
      consumer->unassign();
      return;
    }
    for (const auto* partition : partitions) unplaced_.insert(partition->partition());
    if (auto placed = place(); !placed) {  // poll() tries again
      log::warn("bus.kafka_assignment", {{"topic", name_}, {"error", placed.error().message}});
      assign();  // the group waits for an answer
    }
  }

  // Asks where the unplaced partitions go on, and assigns when all are known.
  Result<> place() {
    for (auto it = unplaced_.begin(); it != unplaced_.end(); it = unplaced_.erase(it)) {
      auto offset = offset_of_(*it);
      if (!offset) return std::unexpected(std::move(offset.error()));
      int64_t next = RdKafka::Topic::OFFSET_BEGINNING;
      if (!offset->cursor.empty() && !parse_int(offset->cursor, next))
        return fail(Code::kInternal, "InvalidCursor", "A cursor is not a Kafka offset: " + offset->cursor);
      next_[*it] = next;
    }
    return assign();
  }

  // An assignment starts every partition at the given offset and drops what was fetched before.
  Result<> assign() {
    std::vector<std::unique_ptr<RdKafka::TopicPartition>> owned;
    std::vector<RdKafka::TopicPartition*> all;
    for (const auto& [partition, next] : next_) {
      owned.emplace_back(RdKafka::TopicPartition::create(name_, partition, next));
      all.push_back(owned.back().get());
    }
    const auto code = consumer_->assign(all);
    if (code == RdKafka::ERR_NO_ERROR) return {};
    for (const auto& [partition, next] : next_) unplaced_.insert(partition);
    next_.clear();
    return kafka::unavailable("Partitions of " + name_ + " cannot be assigned", err2str(code));
  }

  // Whether the partitions are read to their ends is asked of the brokers: the library tells that it came to
  // an end once, and then is as silent about a broker that is away as about one that has nothing new.
  void ask_ends() {
    at_end_.clear();
    for (const auto& [partition, next] : next_) at_end_[partition] = false;
    for (const int partition : unplaced_) at_end_[partition] = false;
    const auto now = std::chrono::steady_clock::now();
    if (next_.empty() || now < ask_ends_at_) return;
    std::vector<std::unique_ptr<RdKafka::TopicPartition>> owned;
    std::vector<RdKafka::TopicPartition*> all;
    for (const auto& [partition, next] : next_) {
      owned.emplace_back(RdKafka::TopicPartition::create(name_, partition, RdKafka::Topic::OFFSET_END));
      all.push_back(owned.back().get());
    }
    const auto code = consumer_->offsetsForTimes(all, static_cast<int>(kEndsPatience.count()));
    const bool answered = code == RdKafka::ERR_NO_ERROR;
    ask_ends_at_ = std::chrono::steady_clock::now() + (answered ? kAskEnds : kAskEndsAgain);
    if (!answered) return;
    for (const auto* end : all) {
      const auto next = next_.at(end->partition());  // negative: not read from yet
      at_end_[end->partition()] =
          end->err() == RdKafka::ERR_NO_ERROR && end->offset() >= 0 && next >= end->offset();
    }
  }

  std::vector<Message> consume(int max, Millis timeout) {
    std::vector<Message> messages;
    while (static_cast<int>(messages.size()) < max) {
      const auto wait = messages.empty() ? timeout : Millis(0);
      const std::unique_ptr<RdKafka::Message> raw(consumer_->consume(static_cast<int>(wait.count())));
      if (raw->err() == RdKafka::ERR__TIMED_OUT) break;
      if (raw->err() ==
          RdKafka::ERR__PARTITION_EOF) {  // also tells where a partition without messages begins
        const auto placed = next_.find(raw->partition());
        if (placed != next_.end() && placed->second < 0) placed->second = raw->offset();
        continue;
      }
      if (raw->err() != RdKafka::ERR_NO_ERROR) {
        // Brokers away and the like: the library goes on by itself.
        log::warn("bus.kafka_consume", {{"topic", name_}, {"error", raw->errstr()}});
        if (messages.empty()) break;
        continue;
      }
      const auto placed = next_.find(raw->partition());
      if (placed == next_.end()) continue;  // fetched before a rewind or a rebalance; comes again
      placed->second = raw->offset() + 1;
      if (auto message = to_message(topic_, *raw))
        messages.push_back(std::move(*message));
      else
        foreign(*raw);
    }
    return messages;
  }

  // Skipped, because the log's positions tell whether anything of ours is missing.
  void foreign(const RdKafka::Message& raw) {
    log::error("bus.foreign_message",
               {{"topic", name_}, {"log_partition", int64_t{raw.partition()}}, {"offset", raw.offset()}});
    metrics::counter("nodus_bus_foreign_messages_total", "Messages in our topic that no relay of ours wrote",
                     {{"topic", topic_}})
        .add();
  }

  const std::string topic_;
  const std::string name_;
  const int partitions_;
  const OffsetOf offset_of_;
  std::unique_ptr<RdKafka::KafkaConsumer> consumer_;
  bool subscribed_ = false;
  std::map<int, int64_t> next_;  // assigned: the next offset to be delivered
  std::set<int> unplaced_;       // given to us, and offset_of is still to be asked
  std::map<int, bool> at_end_;   // by the last poll
  std::chrono::steady_clock::time_point ask_ends_at_;
};

}  // namespace

Result<std::unique_ptr<Source>> make_kafka_source(const TransportOptions& options, const std::string& topic,
                                                  const std::string& consumer_group, OffsetOf offset_of) {
  auto source = std::make_unique<KafkaSource>(options, topic, std::move(offset_of));
  // A group for each topic: a rebalance of one does not touch the consumers of another.
  auto opened = source->open(options.kafka_brokers, options.topic_prefix + consumer_group + "." + topic);
  if (!opened) return std::unexpected(std::move(opened.error()));
  return source;
}

}  // namespace nodus::bus
