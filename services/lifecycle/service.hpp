// The parts of lifecycle in the order they start, and the commands of its binary. Each returns an exit code.
#pragma once

#include <string>

#include "services/lifecycle/config.hpp"

namespace nodus::lifecycle {

int serve(const Config& config);
// Makes an organization with a project and an admin key. The key is written to `key_file` (0600); when that
// file exists its key is used, so that a repeat changes nothing.
int bootstrap(const Config& config, const std::string& org, const std::string& project,
              const std::string& key_file);
int write_key_file(const std::string& key_file, const std::string& key);  // 0600
int parked_list(const Config& config);
int parked_replay(const Config& config, const std::string& topic, const std::string& stream);
int parked_skip(const Config& config, const std::string& topic, const std::string& stream);

}  // namespace nodus::lifecycle
