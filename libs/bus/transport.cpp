#include <algorithm>

#include "libs/bus/bus.hpp"
#include "libs/bus/kafka_relay.hpp"
#include "libs/bus/kafka_source.hpp"
#include "libs/bus/log_relay.hpp"
#include "libs/bus/log_source.hpp"

namespace nodus::bus {
namespace {

Result<> check_options(const TransportOptions& options, const std::string& topic) {
  // The topic names a schema and a channel in SQL.
  const bool named =
      !topic.empty() && std::ranges::all_of(topic, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  if (!named) return fail(Code::kInvalid, "InvalidTopic", "A topic is made of a-z and _.");
  if (options.kind != "log" && options.kind != "kafka")
    return fail(Code::kInvalid, "InvalidBusKind", "bus.kind must be log or kafka.");
  if (options.kind == "kafka" && options.kafka_brokers.empty())
    return fail(Code::kInvalid, "NoKafkaBrokers", "bus.kafkaBrokers must name a broker, as host:port.");
  if (options.partitions < 1 || options.partitions > 64)
    return fail(Code::kInvalid, "InvalidPartitions", "log.partitions must be between 1 and 64.");
  return {};
}

}  // namespace

Result<std::unique_ptr<Relay>> make_relay(const TransportOptions& options, const std::string& topic,
                                          eventlog::EventLog& own, pg::ConnectOptions own_database) {
  if (auto valid = check_options(options, topic); !valid) return std::unexpected(std::move(valid.error()));
  if (options.kind == "kafka") return make_kafka_relay(options, topic, own, std::move(own_database));
  return make_log_relay(topic, std::move(own_database));
}

Result<std::unique_ptr<Source>> make_source(const TransportOptions& options, const std::string& topic,
                                            const std::string& consumer_group, pg::ConnectOptions database,
                                            OffsetOf offset_of) {
  if (auto valid = check_options(options, topic); !valid) return std::unexpected(std::move(valid.error()));
  if (options.kind == "kafka") return make_kafka_source(options, topic, consumer_group, std::move(offset_of));
  return make_log_source(topic, options.partitions, std::move(database), std::move(offset_of));
}

}  // namespace nodus::bus
