// What each command does, after its command line was read. Each returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/api.hpp"
#include "cli/manifest.hpp"

namespace nodus::cli {

int apply(Api& api, const std::vector<std::string>& files,
          const std::string& output);  // "-" is standard input
int create_sandbox(Api& api, const CreateFlags& flags, const std::string& output);
int get(Api& api, const std::string& resource, const std::string& name, const std::string& output);
int start(Api& api, const std::string& sandbox, bool wait);
int stop(Api& api, const std::string& sandbox, bool wait);
int remove(Api& api, const std::string& sandbox, bool wait);
int bill(Api& api, const std::string& sandbox, const std::string& output);

struct ExecFlags {
  std::string sandbox;
  std::vector<std::string> command;
  std::vector<std::string> env;  // NAME=VALUE
  std::string timeout, workdir;
  bool with_input = false;
};
int exec(Api& api, const ExecFlags& flags);

int copy(Api& api, const std::string& from, const std::string& to);

// The whole program but for the process around it. `args` without the program's name.
int run(Console& console, const std::vector<std::string>& args);

}  // namespace nodus::cli
