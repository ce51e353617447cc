// The command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "cli/commands.hpp"
#include "libs/config/config.hpp"

namespace nodus::cli {

namespace {

struct Flags {
  std::string api, project, retry_for = "120s", wait_for = "10m", output, resource, name, from, to;
  std::vector<std::string> files;
  CreateFlags create;
  ExecFlags exec;
  bool no_wait = false;
};

using Action = std::function<int(Api&)>;

void add_output(CLI::App& command, Flags& flags, std::vector<std::string> formats) {
  command.add_option("-o,--output", flags.output, "What to print")->check(CLI::IsMember(std::move(formats)));
}

void add_create(CLI::App& app, Flags& flags, Action& action) {
  auto* create = app.add_subcommand("create", "Create a Sandbox, or connect to the one of that name");
  create->require_subcommand(1);
  auto* sandbox = create->add_subcommand("sandbox", "Create a Sandbox")->alias("sb");
  CreateFlags& given = flags.create;
  sandbox->add_option("name", given.name, "Its name")->required();
  sandbox->add_option("--image", given.image, "Image (nodus/agent-tools)");
  sandbox->add_option("--cpu", given.cpu, "vCPU: 0.25 to 64 (1)");
  sandbox->add_option("--memory", given.memory, "128Mi to 256Gi (1Gi)");
  sandbox->add_option("--disk", given.disk, "1Gi to 200Gi (10Gi)");
  sandbox->add_option("--egress", given.egress, "Deny or Open (Deny)");
  sandbox->add_option("--idle-timeout", given.idle_timeout, "0s (never), or 1m to 24h (5m)");
  sandbox->add_option("--on-idle", given.on_idle, "Stop or Delete (Stop)");
  sandbox->add_option("--max-lifetime", given.max_lifetime, "1m to 720h (24h)");
  sandbox->add_option("--continuity", given.continuity, "Snapshotted or Ephemeral (Snapshotted)");
  sandbox->add_option("--workdir", given.workdir, "Where commands run (/workspace)");
  sandbox->add_option("--max-cost", given.max_cost, "USD after which it stops, such as 5.00");
  add_output(*sandbox, flags, {"json", "yaml", "name"});
  sandbox->callback(
      [&] { action = [&](Api& api) { return create_sandbox(api, flags.create, flags.output); }; });
}

void add_exec(CLI::App& app, Flags& flags, Action& action) {
  auto* command = app.add_subcommand("exec", "Run a command: nodus exec sb/NAME -- COMMAND [ARGUMENT...]");
  command->add_option("sandbox", flags.exec.sandbox, "sb/NAME")->required();
  command->add_option("--timeout", flags.exec.timeout, "After which it is killed, such as 2m (10m)");
  command->add_option("--env", flags.exec.env, "NAME=VALUE, again for each")->take_all()->expected(1);
  command->add_option("--workdir", flags.exec.workdir, "Where it runs");
  command->add_flag("-i,--stdin", flags.exec.with_input, "Give it what comes in on standard input");
  command->callback([&] { action = [&](Api& api) { return exec(api, flags.exec); }; });
}

void add_state(CLI::App& app, Flags& flags, Action& action, const char* name, const char* help,
               int (*run)(Api&, const std::string&, bool)) {
  auto* command = app.add_subcommand(name, help);
  command->add_option("sandbox", flags.name, "sb/NAME")->required();
  command->add_flag("--no-wait", flags.no_wait, "Do not wait until it is done");
  command->callback([&flags, &action, run] {
    action = [&flags, run](Api& api) { return run(api, flags.name, !flags.no_wait); };
  });
}

void add_rest(CLI::App& app, Flags& flags, Action& action) {
  auto* applied = app.add_subcommand("apply", "Create what a manifest describes");
  applied->add_option("-f,--filename", flags.files, "File, or - for standard input")
      ->required()
      ->take_all()
      ->expected(1);
  add_output(*applied, flags, {"json", "yaml", "name"});
  applied->callback([&] { action = [&](Api& api) { return apply(api, flags.files, flags.output); }; });

  auto* got = app.add_subcommand("get", "Show sandboxes, sb/NAME, processes or process/NAME");
  got->add_option("resource", flags.resource, "What")->required();
  got->add_option("name", flags.name, "Which one");
  add_output(*got, flags, {"json", "yaml", "name"});
  got->callback(
      [&] { action = [&](Api& api) { return get(api, flags.resource, flags.name, flags.output); }; });

  auto* copied = app.add_subcommand("cp", "Copy a file: nodus cp FILE sb/NAME:/PATH, or the other way");
  copied->add_option("from", flags.from, "From")->required();
  copied->add_option("to", flags.to, "To")->required();
  copied->callback([&] { action = [&](Api& api) { return copy(api, flags.from, flags.to); }; });

  auto* billed = app.add_subcommand("bill", "Show what was charged");
  billed->add_option("sandbox", flags.name, "sb/NAME: only this one");
  add_output(*billed, flags, {"json", "yaml"});
  billed->callback([&] { action = [&](Api& api) { return bill(api, flags.name, flags.output); }; });
}

int run_action(Console& console, const Flags& flags, const Action& action) {
  auto settings = make_settings(flags.api, flags.project, console.environment);
  if (!settings) return report(console, settings.error());
  for (const auto& [text, into] :
       {std::pair{&flags.retry_for, &settings->retry_for}, {&flags.wait_for, &settings->wait_for}}) {
    const auto duration = config::parse_duration(*text);
    if (!duration) return usage_error(console, duration.error().message);
    *into = *duration;
  }
  Api api(console, std::move(*settings));
  return action(api);
}

}  // namespace

int run(Console& console, const std::vector<std::string>& args) {
  Flags flags;
  Action action;
  CLI::App app(
      "Sandboxes: isolated containers for agents and untrusted code.\n"
      "NODUS_API, NODUS_API_KEY and NODUS_PROJECT say where and who.\n"
      "Exit codes: 0 done, 1 the server said no, 2 usage or a local file, 69 no server; exec: the command's.",
      "nodus");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--api", flags.api, "URL of the API (NODUS_API)");
  app.add_option("--project", flags.project, "Project (NODUS_PROJECT)");
  app.add_option("--retry-for", flags.retry_for,
                 "How long to try again when the server is away or busy (120s)");
  app.add_option("--wait-for", flags.wait_for,
                 "How long to wait for a Sandbox to be stopped, started or gone (10m)");
  add_create(app, flags, action);
  add_rest(app, flags, action);
  add_exec(app, flags, action);
  add_state(app, flags, action, "stop", "Save /workspace and stop paying for compute", stop);
  add_state(app, flags, action, "start", "Start it again", start);
  add_state(app, flags, action, "delete", "Delete it with its files", remove);
  app.add_subcommand("version", "Show the version")->callback([&] {
    action = [](Api&) { return kOk; };
    console.out << "nodus " NODUS_VERSION "\n";
  });

  // What follows "--" is the command's, whatever it looks like.
  const auto dashes = std::find(args.begin(), args.end(), "--");
  std::vector<std::string> own(args.begin(), dashes);
  if (dashes != args.end()) flags.exec.command.assign(dashes + 1, args.end());
  std::reverse(own.begin(), own.end());  // as CLI11 takes them
  try {
    app.parse(own);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e, console.out, console.err);
    return code == 0 ? kOk : kUsage;
  }
  if (app.got_subcommand("version")) return kOk;
  const bool is_exec = app.got_subcommand("exec");
  if (is_exec && flags.exec.command.empty())
    return usage_error(console, "Put the command after --, such as nodus exec sb/hello -- echo hello.");
  if (!is_exec && dashes != args.end()) return usage_error(console, "Only exec takes a command after --.");
  return run_action(console, flags, action);
}

}  // namespace nodus::cli
