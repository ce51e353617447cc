#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "libs/telemetry/log.hpp"
#include "services/scheduler/operator.hpp"
#include "services/scheduler/service.hpp"

using namespace nodus;

namespace {

int refuse(const Error& error) {  // configuration, or a missing dependency
  if (error.causes.empty()) fmt::print(stderr, "nodus-scheduler: {}\n", error.message);
  for (const auto& cause : error.causes)
    fmt::print(stderr, "nodus-scheduler: {}: {}\n", cause.field, cause.message);
  return 2;
}

int print(const Result<std::string>& text) {
  if (!text) return refuse(text.error());
  fmt::print("{}", *text);
  return 0;
}

int serve(const scheduler::Config& config, const Clock& clock) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread: they inherit it
  std::signal(SIGPIPE, SIG_IGN);
  log::init("scheduler", config.log_level);
  auto service = scheduler::Service::start(config, clock);
  if (!service) return refuse(service.error());
  int signal = 0;
  sigwait(&ends, &signal);
  log::info("draining", {{"signal", static_cast<int64_t>(signal)}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Gives starts of Sandboxes a place on machines."};
  std::string file, topic, stream, machine;
  bool print_config = false, force = false;
  app.add_option("--config", file, "YAML file")->required();
  app.add_flag("--print-config", print_config, "Print the effective configuration and exit");
  auto* machines =
      app.add_subcommand("machines", "List machines: what they have, what is taken, their lease");
  auto* lost =
      machines->add_subcommand("lost", "Declare a machine lost, only when it is destroyed or cut off");
  lost->add_option("--machine", machine, "Its name")->required();
  lost->add_flag("--force", force, "Also while it reports");
  auto* parked = app.add_subcommand("parked", "Messages that could not be applied");
  auto* list = parked->add_subcommand("list", "List them");
  auto* replay = parked->add_subcommand("replay", "Apply a stream's parked messages, in order");
  auto* skip = parked->add_subcommand("skip", "Drop a stream's parked messages");
  for (auto* command : {replay, skip}) {
    command->add_option("--topic", topic, "lifecycle or metering")->required();
    command->add_option("--stream", stream, "for example sandbox/<uid>")->required();
  }
  parked->require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }

  const SystemClock clock;
  const bool serving = !*machines && !*parked;
  auto document = config::load_file(file);
  if (!document) return refuse(document.error());
  auto config = scheduler::read_config(*document, serving);
  if (!config) return refuse(config.error());
  if (print_config) return print(config->printed);
  if (*lost) return print(scheduler::lose_machine(*config, clock, machine, force));
  if (*machines) return print(scheduler::list_machines(*config, clock));
  if (*list) return print(scheduler::list_parked(*config));
  if (*replay) return print(scheduler::replay_parked(*config, clock, topic, stream));
  if (*skip) return print(scheduler::skip_parked(*config, topic, stream));
  return serve(*config, clock);
}
