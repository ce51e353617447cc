// Configuration of nodus-scheduler. Each value, its key and its default are in config.cpp.
#pragma once

#include <string>

#include "libs/bus/bus.hpp"
#include "libs/config/config.hpp"
#include "libs/http/server.hpp"
#include "services/scheduler/adapters/node_channel.hpp"

namespace nodus::scheduler {

struct Config {
  std::string log_level;
  http::ServerOptions http;
  pg::ConnectOptions database;
  int database_pool = 0;
  bus::TransportOptions bus;
  SlotsOptions slots;
  FleetPolicy fleet;
  NodeChannelOptions channel;
  std::string printed;  // the effective values, secrets hidden
};

// Operators' commands need the database only: with `serving` false no secret is asked for.
Result<Config> read_config(std::shared_ptr<const config::Document> document, bool serving);

}  // namespace nodus::scheduler
