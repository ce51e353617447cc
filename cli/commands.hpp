// What each command does, after its command line was read. Each returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/api.hpp"
#include "cli/manifest.hpp"

namespace CLI {
class App;
}

namespace nodus::cli {

struct ApplyFlags {
  std::vector<std::string> files;  // "-" is standard input
  std::string output;
  bool dry_run = false;
};
int apply(Api& api, const ApplyFlags& flags);
int create_sandbox(Api& api, const CreateFlags& flags, const std::string& output, bool dry_run);

struct BudgetFlags {
  std::string name, limit, period;
  std::vector<int> thresholds;
};
CLI::App* add_budget(CLI::App& create, BudgetFlags& flags);  // the command line of create budget
int create_budget(Api& api, const BudgetFlags& flags, const std::string& output, bool dry_run);
// Makes the Budget that a manifest describes; `replace`: or gives the one of its name this spec.
int send_budget(Api& api, const boost::json::object& manifest, const std::string& output, bool dry_run,
                bool replace);

struct GetFlags {
  std::vector<std::string> words;  // "sandboxes", "sb/hello", …
  std::string output;              // json | yaml | wide | name; empty: a table
  std::string selector, field_selector, sandbox;
  bool watch = false;
};
int get(Api& api, const GetFlags& flags);
int events(Api& api, const GetFlags& flags);  // of one object, or of all
int describe(Api& api, const std::vector<std::string>& words);

struct WaitFlags {
  std::vector<std::string> words;
  std::string wanted;  // phase=…, condition=…, delete
  Micros patience{0};
};
int wait(Api& api, const WaitFlags& flags);

struct LogFlags {
  std::string what;  // process/NAME, or sb/NAME for its latest
  std::string stream;
  bool follow = false;
};
int logs(Api& api, const LogFlags& flags);

int start(Api& api, const std::vector<std::string>& sandboxes, bool wait);
int stop(Api& api, const std::vector<std::string>& sandboxes, bool wait);
int remove(Api& api, const std::vector<std::string>& words, bool wait, bool missing_is_fine = false);

struct QuoteFlags {
  std::string cpu, memory, disk, machine_type;  // empty: the server's default
  std::string output;
};
int quote(Api& api, const QuoteFlags& flags);

struct ExecFlags {
  std::string sandbox;
  std::vector<std::string> command;
  std::vector<std::string> env;  // NAME=VALUE
  std::string timeout, workdir;
  bool with_input = false;  // -i
  bool terminal = false;    // -t
};
int exec(Api& api, const ExecFlags& flags);
// With TERM, when the command gets a terminal.
std::vector<std::string> terminal_env(const Console& console, const ExecFlags& flags);

struct ShellFlags {
  CreateFlags create;  // its name is empty: a Sandbox of its own
  std::vector<std::string> command;
  bool remove = false, keep = false;
};
int shell(Api& api, const ShellFlags& flags);

struct CopyFlags {
  std::string from, to;
  bool recursive = false;
  bool preserve = false;  // modes and times, also of what is replaced
};
int copy(Api& api, const CopyFlags& flags);

// The whole program but for the process around it. `args` without the program's name.
int run(Console& console, const std::vector<std::string>& args);

}  // namespace nodus::cli
