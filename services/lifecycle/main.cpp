#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include "libs/base/signals.hpp"
#include "services/lifecycle/admin.hpp"
#include "services/lifecycle/service.hpp"

using namespace nodus;

int main(int argc, char** argv) {
  block_termination();
  CLI::App app("The lifecycle service: the public API, Sandboxes, Processes, organizations and keys.",
               "nodus-lifecycle");
  std::string path;
  std::string org;
  std::string project;
  std::string key_file;
  std::string topic;
  std::string stream;
  bool print = false;
  app.add_option("--config", path, "YAML file")->required();
  app.add_flag("--print-config", print, "print the effective configuration and end");
  auto* boot = app.add_subcommand("bootstrap", "make an organization with a project and an admin key");
  boot->add_option("--org", org)->required();
  boot->add_option("--project", project)->required();
  boot->add_option("--key-out", key_file, "where the key is, or is written to")->required();
  auto* parked = app.add_subcommand("parked", "messages that could not be applied");
  auto* list = parked->add_subcommand("list");
  auto* replay = parked->add_subcommand("replay");
  auto* skip = parked->add_subcommand("skip");
  parked->require_subcommand(1);
  for (auto* command : {replay, skip}) {
    command->add_option("--topic", topic)->required();
    command->add_option("--stream", stream)->required();
  }
  lifecycle::AdminRequest admin_request;
  auto* admin = lifecycle::admin_options(app, admin_request);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::string printed;
  const auto config = lifecycle::read_config(path, &printed);
  if (!config) {
    fmt::print(stderr, "nodus-lifecycle: {}\n", config.error().message);
    for (const auto& cause : config.error().causes)
      fmt::print(stderr, "  {}: {}\n", cause.field, cause.message);
    return 2;
  }
  if (print) {
    fmt::print("{}", printed);
    return 0;
  }
  if (*boot) return lifecycle::bootstrap(*config, org, project, key_file);
  if (*list) return lifecycle::parked_list(*config);
  if (*replay) return lifecycle::parked_replay(*config, topic, stream);
  if (*skip) return lifecycle::parked_skip(*config, topic, stream);
  if (*admin) return lifecycle::administer(*config, admin_request);
  return lifecycle::serve(*config);
}
