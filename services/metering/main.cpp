#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include "libs/base/signals.hpp"
#include "services/metering/admin.hpp"
#include "services/metering/service.hpp"

using namespace nodus;

int main(int argc, char** argv) {
  block_termination();
  CLI::App app("The metering service: prices, rates, holds, charges, credits and the bill.",
               "nodus-metering");
  std::string path, topic, stream, month, org;
  bool print = false;
  app.add_option("--config", path, "YAML file")->required();
  app.add_flag("--print-config", print, "print the effective configuration and end");
  metering::AdminAction admin;
  metering::admin_commands(app, admin);
  auto* invoice = app.add_subcommand("invoice", "close the months up to one: invoices, idempotent");
  invoice->add_option("--month", month, "such as 2026-11, UTC")->required();
  invoice->add_option("--org", org, "only this organization");
  auto* again = app.add_subcommand("recompute", "rebuild a month from the log; exit code 1 on a difference");
  again->add_option("--month", month, "such as 2026-11, UTC")->required();
  again->add_option("--org", org, "only this organization");
  auto* audit = app.add_subcommand("audit", "check the ledger; exit code 1 on a fault");
  auto* parked = app.add_subcommand("parked", "messages that could not be applied");
  auto* list = parked->add_subcommand("list");
  auto* replay = parked->add_subcommand("replay");
  auto* skip = parked->add_subcommand("skip");
  parked->require_subcommand(1);
  for (auto* command : {replay, skip}) {
    command->add_option("--topic", topic)->required();
    command->add_option("--stream", stream)->required();
  }
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::string printed;
  const bool serving = app.get_subcommands().empty() && !print;
  const auto config = metering::read_config(path, &printed, serving);
  if (!config) return metering::complain(config.error(), 2);
  if (print) {
    fmt::print("{}", printed);
    return 0;
  }
  if (admin) return admin(*config);
  if (*invoice) return metering::invoice(*config, month, org);
  if (*again) return metering::recompute_month(*config, month, org);
  if (*audit) return metering::run_audit(*config);
  if (*list) return metering::parked_list(*config);
  if (*replay) return metering::parked_replay(*config, topic, stream);
  if (*skip) return metering::parked_skip(*config, topic, stream);
  return metering::serve(*config);
}
