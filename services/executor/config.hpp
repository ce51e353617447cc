// The configuration of nodusd. Every value has its default here and nowhere else.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "services/executor/domain/slot.hpp"

namespace nodus::executor {

struct Config {
  std::string machine;
  std::string org;      // empty: any
  std::string profile;  // production | dev
  std::string http_listen;
  std::string data_path;  // host:port where lifecycle reaches this node; empty: http.listen
  std::string scheduler_url;
  std::string lifecycle_url;
  std::string log_level;
  std::filesystem::path state;
  std::filesystem::path store;
  std::filesystem::path images;
  std::filesystem::path helper;
  std::string runtime_kind;  // auto | runsc | runc
  std::filesystem::path runtime_directory;
  Shape capacity;
  std::string network_pool;
  std::vector<std::string> resolvers;
  int parallel_starts = 0;
  Millis end_patience{0};
  uint64_t output_bytes = 0;  // of one command; lifecycle's output.processBytes
  std::string node_token;     // from NODUS_NODE_TOKEN
};

// `printed`, when given, receives the effective values, without secrets.
Result<Config> read_config(const std::string& path, std::string* printed = nullptr);

}  // namespace nodus::executor
