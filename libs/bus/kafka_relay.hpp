// Transport `kafka`, writing side: publishes a service's own log, in order, at least once.
#pragma once

#include <memory>
#include <string>

#include "libs/bus/bus.hpp"

namespace nodus::bus {
Result<std::unique_ptr<Relay>> make_kafka_relay(const TransportOptions& options, const std::string& topic,
                                                eventlog::EventLog& own, pg::ConnectOptions own_database);
}
