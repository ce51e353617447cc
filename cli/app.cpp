// The command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "cli/bill.hpp"
#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "libs/config/config.hpp"

namespace nodus::cli {

namespace {

constexpr const char* kObjectWords = "sb/NAME, process/NAME";

struct Flags {
  std::string api, project, retry_for = "120s", wait_for = "10m", output, name, timeout, shell_name;
  std::vector<std::string> words;
  ApplyFlags apply;
  CreateFlags create;
  GetFlags get;
  WaitFlags wait;
  LogFlags logs;
  QuoteFlags quote;
  ExecFlags exec;
  CopyFlags copy;
  ShellFlags shell;
  BillFlags bill;
  BudgetFlags budget;
  bool waits = true, quiet = false, dry_run = false, ignore_missing = false;
};

using Action = std::function<int(Api&)>;

class Grammar {
 public:
  Grammar(CLI::App& app, Flags& flags, Action& action) : app_(app), flags_(flags), action_(action) {
    add_making();
    add_changing();
    add_using();
    add_looking();
  }

 private:
  CLI::App* command(const char* name, const char* help, const char* examples, Action action) {
    auto* made = app_.add_subcommand(name, help);
    made->footer(std::string("Examples:\n") + examples +
                 "\n\nnodus --help shows the flags for every command.");
    made->callback([this, action = std::move(action)] { action_ = action; });
    return made;
  }
  void output(CLI::App& command, std::string& into, std::vector<std::string> formats) {
    std::string help = "Print ";
    for (size_t i = 0; i < formats.size(); ++i)
      help += (i == 0 ? "" : i + 1 == formats.size() ? " or " : ", ") + formats[i];
    command.add_option("-o,--output", into, help)
        ->check(CLI::IsMember(std::move(formats)))
        ->option_text("FORMAT");
  }

  // The fields of a Sandbox; where they are left out, the server's defaults count.
  static void spec(CLI::App& c, CreateFlags& given) {
    const auto add = [&](const char* flag, std::string& into, const char* help, const char* type) {
      c.add_option(flag, into, help)->option_text(type)->group("Sandbox");
    };
    const auto list = [&](const char* flag, std::vector<std::string>& into, const char* help) {
      c.add_option(flag, into, help)->option_text("NAME=VALUE")->group("Sandbox")->take_all()->expected(1);
    };
    add("--image", given.image, "An image reference (nodus/agent-tools)", "IMAGE");
    add("--cpu", given.cpu, "vCPU, 0.25 to 64 (1)", "CPU");
    add("--memory", given.memory, "128Mi to 256Gi (1Gi)", "SIZE");
    add("--disk", given.disk, "1Gi to 200Gi (10Gi)", "SIZE");
    add("--egress", given.egress, "Deny: no outbound traffic; Open: the public internet (Deny)", "POLICY");
    add("--idle-timeout", given.idle_timeout, "Unused for so long it stops: 1m to 24h, 0s: never (5m)",
        "TIME");
    add("--on-idle", given.on_idle, "Then: Stop, or Delete (Stop)", "WHAT");
    add("--max-lifetime", given.max_lifetime, "It is deleted so long after creation: 1m to 720h (24h)",
        "TIME");
    add("--continuity", given.continuity,
        "Snapshotted: /workspace is kept across stops; Ephemeral (Snapshotted)", "MODE");
    add("--workdir", given.workdir, "Where commands run (/workspace)", "PATH");
    add("--max-cost", given.max_cost, "It stops when it has cost so many USD, such as 5.00 (none)", "USD");
    add("--state", given.state, "Running, or Stopped: made, but not started (Running)", "STATE");
    list("--env", given.env, "A variable for every command; again for each");
    list("--label", given.labels, "A label, to select by; again for each");
    list("--annotation", given.annotations, "An annotation; again for each");
  }

  void add_making() {
    auto* apply_command =
        command("apply", "Create what manifests describe, or connect to it",
                "  nodus apply -f sandbox.yaml\n  cat *.yaml | nodus apply -f -", [this](Api& api) {
                  flags_.apply.output = flags_.output;
                  flags_.apply.dry_run = flags_.dry_run;
                  return apply(api, flags_.apply);
                });
    apply_command
        ->add_option("-f,--filename", flags_.apply.files, "A YAML or JSON file, or - for standard input")
        ->required()
        ->option_text("FILE")
        ->take_all()
        ->expected(1);
    apply_command->add_flag("--dry-run", flags_.dry_run, "Have the server check it, and make nothing");
    output(*apply_command, flags_.output, {"json", "yaml", "name"});

    auto* create =
        app_.add_subcommand("create", "Create a Sandbox or a Budget, or connect to the one of that name");
    create->require_subcommand(1);
    auto* sandbox = create->add_subcommand("sandbox", "Create a Sandbox, or connect to the one of that name");
    sandbox->alias("sb")->alias("sandboxes");
    sandbox->footer("Example:\n  nodus create sandbox dev --cpu 2 --memory 4Gi --max-cost 5.00");
    sandbox->add_option("NAME", flags_.create.name, "Its name")->required()->option_text("NAME");
    spec(*sandbox, flags_.create);
    sandbox->add_flag("--dry-run", flags_.dry_run, "Have the server check it, and make nothing");
    output(*sandbox, flags_.output, {"json", "yaml", "name"});
    sandbox->callback([this] {
      action_ = [this](Api& api) {
        return create_sandbox(api, flags_.create, flags_.output, flags_.dry_run);
      };
    });
    auto* budget = add_budget(*create, flags_.budget);
    output(*budget, flags_.output, {"json", "yaml", "name"});
    budget->callback([this] {
      action_ = [this](Api& api) { return create_budget(api, flags_.budget, flags_.output, flags_.dry_run); };
    });
  }

  void state(const char* name, const char* help, const char* examples, Action action) {
    auto* changed = command(name, help, examples, std::move(action));
    changed->add_option("NAME", flags_.words, "Which, one or more")->required()->option_text("NAME...");
    changed->add_flag("--wait,!--no-wait", flags_.waits, "Whether to wait until it is done (--wait)");
  }

  void add_changing() {
    state("stop", "Save /workspace and stop paying for compute", "  nodus stop sb/hello",
          [this](Api& api) { return stop(api, flags_.words, flags_.waits); });
    state("start", "Start it again, with /workspace restored", "  nodus start sb/hello",
          [this](Api& api) { return start(api, flags_.words, flags_.waits); });
    state(
        "delete", "Delete Sandboxes with their files, or cancel commands",
        "  nodus delete sb/hello sb/dev\n  nodus delete process/sb-hello-12   # cancels it; its record stays",
        [this](Api& api) { return remove(api, flags_.words, flags_.waits, flags_.ignore_missing); });
    app_.get_subcommand("delete")->add_flag("--ignore-not-found", flags_.ignore_missing,
                                            "What is not there is no error");
  }

  void add_using() {
    auto* ran =
        command("exec", "Run a command in a Sandbox; its exit code is ours",
                "  nodus exec sb/hello -- echo hello\n  nodus exec -it sb/hello -- python3\n"
                "  tar cz . | nodus exec -i sb/hello -- tar xz\n\n"
                "^C cancels the command; with -t the terminal gets it. When the connection is lost, output\n"
                "goes on where it ended; a client that goes away ends nothing.",
                [this](Api& api) { return exec(api, flags_.exec); });
    ran->add_option("NAME", flags_.exec.sandbox, "Where")->required()->option_text("NAME -- COMMAND...");
    ran->add_flag("-i,--stdin", flags_.exec.with_input, "Give it our standard input");
    ran->add_flag("-t,--tty", flags_.exec.terminal, "Give it a terminal");
    ran->add_option("--timeout", flags_.exec.timeout,
                    "After which it is killed, up to 24h (10m; with -t 24h)")
        ->option_text("TIME");
    ran->add_option("-e,--env", flags_.exec.env, "A variable; again for each")
        ->option_text("NAME=VALUE")
        ->take_all()
        ->expected(1);
    ran->add_option("--workdir", flags_.exec.workdir, "Where it runs (spec.workingDir)")->option_text("PATH");

    auto* opened =
        command("shell", "Open a terminal in a Sandbox, which is made first when the name is new",
                "  nodus shell sandbox/dev --cpu 2 --memory 4Gi\n  nodus shell                  # of its "
                "own, deleted on exit\n  nodus shell sandbox/dev -- zsh\n  echo 'make test' | nodus shell "
                "sandbox/dev",
                [this](Api& api) { return shell(api, flags_.shell); });
    opened->add_option("NAME", flags_.shell.create.name, "Which; none: one of its own, deleted on exit")
        ->option_text("[NAME] [-- COMMAND...]");
    opened->add_flag("--rm", flags_.shell.remove,
                     "Delete the Sandbox that this command creates when the shell exits");
    opened->add_flag("--keep", flags_.shell.keep, "Keep a Sandbox without a name, too");
    spec(*opened, flags_.shell.create);

    auto* copied = command("cp", "Copy files and trees, in or out",
                           "  nodus cp ./notes.txt sb/hello:/workspace/notes.txt\n"
                           "  nodus cp sb/hello:/workspace/result.json ./result.json\n"
                           "  nodus cp -r ./project sb/hello:/workspace/\n"
                           "  nodus cp sb/hello:/workspace/log.txt - | less",
                           [this](Api& api) { return copy(api, flags_.copy); });
    copied->add_option("FROM", flags_.copy.from, "A path, sb/NAME:/PATH, or - for standard input")
        ->required()
        ->option_text("FROM");
    copied->add_option("TO", flags_.copy.to, "Where to, or - for standard output")
        ->required()
        ->option_text("TO");
    copied->add_flag("-r,--recursive", flags_.copy.recursive, "Directories with all that is in them");
    copied->add_flag("-p,--preserve", flags_.copy.preserve,
                     "Keep modes and times, also of files that are replaced");

    auto* logged =
        command("logs", "Show what a command wrote",
                "  nodus logs process/sb-hello-12\n  nodus logs -f sb/hello           # its latest command",
                [this](Api& api) { return logs(api, flags_.logs); });
    logged->add_option("WHAT", flags_.logs.what, "process/NAME, or sb/NAME for its latest command")
        ->required()
        ->option_text("NAME");
    logged->add_flag("-f,--follow", flags_.logs.follow, "Go on until it ends");
    logged->add_option("--stream", flags_.logs.stream, "Only stdout, or only stderr")
        ->check(CLI::IsMember({"stdout", "stderr"}))
        ->option_text("STREAM");
  }

  void selecting(CLI::App& c) {
    c.add_flag("-w,--watch", flags_.get.watch, "Go on and show what changes");
    output(c, flags_.get.output, {"json", "yaml", "wide", "name"});
  }

  void add_looking() {
    auto* got = command(
        "get", "Show Sandboxes, processes or events",
        "  nodus get sandboxes\n  nodus get sb/hello -o yaml\n  nodus get processes --sandbox sb/hello\n"
        "  nodus get sandboxes -l team=web -w",
        [this](Api& api) { return get(api, flags_.get); });
    got->add_option("WHAT", flags_.get.words,
                    "sandboxes (sb), processes (proc), events (ev), budgets, invoices, or some by name")
        ->required()
        ->option_text("WHAT...");
    got->add_option("-l,--selector", flags_.get.selector, "Only those with such labels, as app=web,tier!=db")
        ->option_text("LABELS");
    got->add_option("--field-selector", flags_.get.field_selector,
                    "Only those with such fields, as status.phase=Running")
        ->option_text("FIELDS");
    got->add_option("--sandbox", flags_.get.sandbox, "Only processes of this one")->option_text("NAME");
    selecting(*got);

    auto* happened = command("events", "Show what happened", "  nodus events\n  nodus events sb/hello -w",
                             [this](Api& api) { return events(api, flags_.get); });
    happened->add_option("WHAT", flags_.get.words, "To what; none: to anything")->option_text("[NAME]");
    selecting(*happened);

    command("describe", "Show everything about an object", "  nodus describe sb/hello",
            [this](Api& api) { return describe(api, flags_.words); })
        ->add_option("NAME", flags_.words, kObjectWords)
        ->required()
        ->option_text("NAME...");

    auto* waited =
        command("wait", "Wait for a phase, a condition, or the end of an object",
                "  nodus wait sb/hello --for=phase=Running\n  nodus wait sb/hello --for=condition=Ready "
                "--timeout=2m\n  nodus wait sb/hello --for=delete\n  nodus wait process/sb-hello-12 "
                "--for=phase=Ended",
                [this](Api& api) {
                  flags_.wait.patience = api.settings().wait_for;
                  return wait(api, flags_.wait);
                });
    waited->add_option("NAME", flags_.wait.words, kObjectWords)->required()->option_text("NAME...");
    waited->add_option("--for", flags_.wait.wanted, "phase=PHASE, condition=TYPE[=STATUS] or delete")
        ->required()
        ->option_text("WHAT");
    waited->add_option("--timeout", flags_.wait_for, "For how long (10m); then the exit code is 124")
        ->option_text("TIME");

    add_money();
  }

  void add_money() {
    auto* billed =
        command("bill", "Show what was charged; export: each line of a month as CSV",
                "  nodus bill sb/hello --month 2026-11\n  nodus bill --organization --by project -o csv\n"
                "  nodus bill export --month 2026-11 --format focus-1.2 > november.csv",
                [this](Api& api) { return bill(api, flags_.bill); });
    bill_options(*billed, flags_.bill);
    output(*billed, flags_.bill.output, {"json", "yaml", "csv"});

    auto* quoted = command("quote", "Show what a start would cost, without starting",
                           "  nodus quote --cpu 2 --memory 4Gi\n  nodus quote --machine-type own-16-64",
                           [this](Api& api) { return quote(api, flags_.quote); });
    quoted->add_option("--cpu", flags_.quote.cpu, "vCPU, 0.25 to 64 (1)")->option_text("CPU");
    quoted->add_option("--memory", flags_.quote.memory, "128Mi to 256Gi (1Gi)")->option_text("SIZE");
    quoted->add_option("--disk", flags_.quote.disk, "1Gi to 200Gi (10Gi)")->option_text("SIZE");
    quoted->add_option("--machine-type", flags_.quote.machine_type, "Its own machine")->option_text("TYPE");
    output(*quoted, flags_.quote.output, {"json", "yaml"});
  }

  CLI::App& app_;
  Flags& flags_;
  Action& action_;
};

Result<Settings> settings_of(Console& console, const Flags& flags) {
  auto settings = make_settings(flags.api, flags.project, console.environment);
  if (!settings) return settings;
  for (const auto& [text, into] :
       {std::pair{&flags.retry_for, &settings->retry_for}, {&flags.wait_for, &settings->wait_for}}) {
    const auto duration = config::parse_duration(*text);
    if (!duration) return fail(Code::kInvalid, "LocalFault", duration.error().message);
    *into = *duration;
  }
  return settings;
}

int print_completions(Console& console, const CLI::App& app, Flags flags) {
  const auto line = console.environment.find("COMP_LINE");
  if (line == console.environment.end()) return kOk;
  flags.retry_for = "1s";
  auto settings = settings_of(console, flags);
  std::optional<Api> api;
  if (settings) api.emplace(console, std::move(*settings));
  for (const auto& word : complete(app, line->second, api ? &*api : nullptr)) console.out << word << "\n";
  return kOk;
}

// What follows "--" is the command's, whatever it looks like.
std::optional<std::string> take_command(const CLI::App& app, bool dashes, std::vector<std::string> command,
                                        Flags& flags) {
  if (app.got_subcommand("exec")) {
    if (command.empty()) return "Put the command after --, such as nodus exec sb/hello -- echo hello.";
    flags.exec.command = std::move(command);
  } else if (app.got_subcommand("shell")) {
    if (dashes && command.empty()) return "Put a command after --, or leave -- out.";
    flags.shell.command = std::move(command);
  } else if (dashes) {
    return "Only exec and shell take a command after --.";
  }
  return std::nullopt;
}

}  // namespace

int run(Console& console, const std::vector<std::string>& args) {
  Flags flags;
  Action action;
  CLI::App app("", "nodus");
  app.formatter(std::make_shared<HelpText>());
  app.get_formatter()->label("OPTIONS", "flags");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--api", flags.api, "URL of the API (NODUS_API)")->option_text("URL");
  app.add_option("--project", flags.project, "Project (NODUS_PROJECT)")->option_text("NAME");
  app.add_option("--retry-for", flags.retry_for, "How long to try again (120s)")->option_text("TIME");
  app.add_option("--wait-for", flags.wait_for, "How long to wait for what was asked for (10m)")
      ->option_text("TIME");
  app.add_flag("-q,--quiet", flags.quiet, "Say nothing while waiting");
  const Grammar grammar(app, flags, action);
  app.add_subcommand("version", "Show the version");
  std::string shell;
  app.add_subcommand("completion", "Print a completion script")
      ->footer("Example:\n  eval \"$(nodus completion bash)\"")
      ->add_option("SHELL", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->option_text("SHELL");
  app.add_subcommand("__complete", "")->group("")->allow_extras();

  const auto dashes = std::find(args.begin(), args.end(), "--");
  std::vector<std::string> own(args.begin(), dashes);
  if (own.empty() || own == std::vector<std::string>{"--help"} || own == std::vector<std::string>{"-h"} ||
      own == std::vector<std::string>{"help"}) {
    (own.empty() ? console.err : console.out) << overview();
    return own.empty() ? kUsage : kOk;
  }
  const std::string verb = own.front();
  std::reverse(own.begin(), own.end());  // as CLI11 takes them
  try {
    app.parse(own);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e, console.out, console.err);
    console.err << "error: " << e.what() << "\n";
    if ((verb == "exec" || verb == "shell") && dashes == args.end())
      console.err << "A command stands after --, such as: nodus exec sb/hello -- echo hello\n";
    console.err << "nodus --help shows what there is.\n";
    return kUsage;
  }
  console.quiet = flags.quiet;
  if (app.got_subcommand("version")) return console.out << "nodus " NODUS_VERSION "\n", kOk;
  if (app.got_subcommand("completion")) return console.out << completion_script(shell), kOk;
  if (app.got_subcommand("__complete")) return print_completions(console, app, flags);
  const bool has_dashes = dashes != args.end();
  if (const auto wrong = take_command(
          app, has_dashes,
          has_dashes ? std::vector<std::string>(dashes + 1, args.end()) : std::vector<std::string>(), flags))
    return usage_error(console, *wrong);
  auto settings = settings_of(console, flags);
  if (!settings) return report(console, settings.error());
  Api api(console, std::move(*settings));
  return action(api);
}

}  // namespace nodus::cli
