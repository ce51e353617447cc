// What the Kafka relay and the Kafka source share. librdkafka++ stays behind libs/bus/kafka_*.
#pragma once

#include <librdkafka/rdkafkacpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/error.hpp"
#include "libs/bus/bus.hpp"

namespace nodus::bus::kafka {

// Header names of a message; the key is the stream and the value the payload.
inline constexpr const char* kPosition = "position";
inline constexpr const char* kVersion = "version";
inline constexpr const char* kType = "type";
inline constexpr const char* kAtMicros = "at-us";

std::string topic_name(const TransportOptions& options, const std::string& topic);

// Settings that the library does not know or refuses are a bug of ours: CHECK.
std::unique_ptr<RdKafka::Conf> make_conf(const std::vector<std::pair<std::string, std::string>>& settings);

// Makes the topic with that many partitions when it is missing. Waits up to `timeout` for the broker
// (Unavailable/KafkaUnavailable); a topic with another number of partitions is
// Internal/TopicPartitionsDiffer.
Result<> ensure_topic(RdKafka::Handle& handle, const std::string& name, int partitions, Millis timeout);

std::unexpected<Error> unavailable(const std::string& what, const std::string& why);

}  // namespace nodus::bus::kafka
