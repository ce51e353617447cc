// The data path of a node: commands and files of its running slots, for whoever holds the node's token.
#pragma once

#include <memory>
#include <string>

#include "libs/http/server.hpp"
#include "services/executor/process/file_limits.hpp"
#include "services/executor/process/process_service.hpp"

namespace nodus::executor {

struct DataPathOptions {
  std::string token;                  // NODUS_NODE_TOKEN
  uint64_t file_bytes = 64ull << 20;  // of one request
  Millis keep_alive{15'000};          // an empty object after so much silence
  FileLimits files;
};

// `waiters` is told by `processes` (SlotProcesses::Changed) of each command's news, with the uid as its key.
// Both outlive the server.
void data_path_routes(http::Server& server, Processes& processes, http::Waiters& waiters,
                      DataPathOptions options);

}  // namespace nodus::executor
