// Transport `log`, reading side: tails <topic>.published_events, one cursor a partition. Woken by the
// doorbell (LISTEN nodus_<topic>); without it, polls every 20 ms while messages come and every `timeout`
// else.
#pragma once

#include <memory>

#include "libs/bus/bus.hpp"

namespace nodus::bus {
std::unique_ptr<Source> make_log_source(const std::string& topic, int partitions, pg::ConnectOptions database,
                                        OffsetOf offset_of);
}
