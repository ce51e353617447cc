// Transport `log`, writing side: what is committed is published already; this rings the doorbell.
#pragma once

#include <memory>

#include "libs/bus/bus.hpp"

namespace nodus::bus {
std::unique_ptr<Relay> make_log_relay(const std::string& topic, pg::ConnectOptions database);
}
