// Transport `kafka`, reading side. The group only shares out partitions: where to go on is asked of
// `offset_of` (our database) at every assignment, never of Kafka's committed offsets.
#pragma once

#include <memory>
#include <string>

#include "libs/bus/bus.hpp"

namespace nodus::bus {
Result<std::unique_ptr<Source>> make_kafka_source(const TransportOptions& options, const std::string& topic,
                                                  const std::string& consumer_group, OffsetOf offset_of);
}
