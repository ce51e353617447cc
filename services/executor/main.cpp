#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include "libs/base/signals.hpp"
#include "services/executor/service.hpp"

using namespace nodus;

int main(int argc, char** argv) {
  block_termination();
  CLI::App app("The node daemon: runs the Sandboxes of one machine.", "nodusd");
  std::string path;
  bool print = false;
  app.add_option("--config", path, "YAML file")->required();
  app.add_flag("--print-config", print, "print the effective configuration and end");
  const auto* purge =
      app.add_subcommand("purge", "destroy all Sandboxes of this node and what belongs to them");
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::string printed;
  const auto config = executor::read_config(path, &printed);
  if (!config) {
    fmt::print(stderr, "nodusd: {}\n", config.error().message);
    for (const auto& cause : config.error().causes)
      fmt::print(stderr, "  {}: {}\n", cause.field, cause.message);
    return 2;
  }
  if (print) {
    fmt::print("{}", printed);
    return 0;
  }
  return *purge ? executor::purge(*config) : executor::serve(*config);
}
