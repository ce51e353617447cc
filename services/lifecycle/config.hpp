// Everything that can be set. Defaults are the spec's values.
#pragma once

#include <string>

#include "libs/bus/bus.hpp"
#include "libs/config/config.hpp"
#include "libs/http/server.hpp"
#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/audit.hpp"
#include "services/lifecycle/adapters/change_feed.hpp"
#include "services/lifecycle/adapters/change_keeper.hpp"
#include "services/lifecycle/adapters/limits.hpp"
#include "services/lifecycle/app/deadlines.hpp"
#include "services/lifecycle/app/process_keeper.hpp"
#include "services/lifecycle/app/upkeep.hpp"

namespace nodus::lifecycle {

struct Config {
  http::ServerOptions http;
  pg::ConnectOptions database;
  int pool = 16;
  int log_partitions = 4;
  eventlog::BatcherOptions batcher;
  bus::TransportOptions bus;
  std::string log_level;
  std::string images_dir;
  std::string env_key;  // NODUS_ENV_KEY, see adapters/environment.hpp; never printed
  ApiOptions api;
  FeedOptions feed;
  ChangeKeeping keeping;
  LimitOptions limits;
  std::string metrics_token;  // from NODUS_METRICS_TOKEN; empty: /metrics is for loopback only
  AuditOptions audit;
  DeadlineOptions deadlines;
  UpkeepOptions upkeep;
  KeeperOptions keeper;
  std::string output_directory;
  OutputLimits outputs;
};

// Every fault at once, one cause each. `printed`: the effective values, secrets hidden.
Result<Config> read_config(const std::string& path, std::string* printed);

}  // namespace nodus::lifecycle
