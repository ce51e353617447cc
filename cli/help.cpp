#include "cli/help.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "cli/output.hpp"
#include "cli/read.hpp"

namespace nodus::cli {

std::string overview() {
  return R"(nodus drives Sandboxes: isolated containers for agents and untrusted code.

Usage: nodus COMMAND [flags]

Make and change
  apply -f FILE            create what manifests describe, or connect to it (-: standard input)
  create sandbox NAME      the same, from flags
  create budget NAME       limit what the project spends (--limit 100.00)
  stop, start NAME...      save /workspace and stop paying for compute; start again
  delete NAME...           delete Sandboxes with their files; delete process/NAME cancels a command

Use
  exec NAME -- COMMAND     run a command; its exit code is ours (-it: with a terminal)
  shell [NAME]             open a terminal, in a new Sandbox when the name is new
  cp FILE NAME:/PATH       copy files in, or out
  logs process/NAME        what a command wrote (-f: and what it writes)

Look
  get sandboxes            also sb/NAME, processes, events, budgets; -o json|yaml|wide|name, -l, -w
  describe sb/NAME         everything about one
  events [sb/NAME]         what happened
  wait NAME --for ...      until phase=Running, condition=Ready or delete
  bill [sb/NAME]           what was charged (--by, --month, --organization, -o csv); get invoices
  quote                    what a start would cost, without starting

  completion SHELL         a script for bash, zsh or fish
  version

A Sandbox is named sb/NAME, sandbox/NAME, sandboxes/NAME or NAME. nodus COMMAND --help says more.

Flags for every command
  --api URL                the server (NODUS_API); the key is in NODUS_API_KEY, never in a flag
  --project NAME           the project (NODUS_PROJECT)
  --retry-for 120s         how long to try again when the server is away, busy, or starting a Sandbox
  --wait-for 10m           how long to wait for what was asked for
  -q, --quiet              say nothing while waiting

Exit codes: 0 done, 1 the server said no, 2 the command line or a local file is wrong, 69 no server,
124 waited too long, 128+n ended by signal n (130: ^C); exec and shell: the command's own.
)";
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return "complete -o default -C 'nodus __complete' nodus\n";
  if (shell == "zsh")
    return "autoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C 'nodus __complete' nodus\n";
  if (shell == "fish")
    return "complete -c nodus -f -a '(env COMP_LINE=(commandline -cp) nodus __complete)'\n";
  return "";
}

namespace {

const CLI::App* subcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    if (sub->check_name(name)) return sub;
  return nullptr;
}

void add_flags(const CLI::App& app, std::vector<std::string>& out) {
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames()) out.push_back("--" + name);
}

}  // namespace

std::vector<std::string> complete(const CLI::App& app, const std::string& line, Api* api) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  const bool fresh = line.empty() || line.back() == ' ';
  const std::string last = fresh || words.empty() ? "" : words.back();
  if (!fresh && !words.empty()) words.pop_back();
  if (!words.empty()) words.erase(words.begin());  // nodus itself
  if (std::ranges::find(words, "--") != words.end()) return {};
  const CLI::App* at = &app;
  for (const auto& word : words)
    if (const CLI::App* sub = subcommand(*at, word)) at = sub;
  std::vector<std::string> all;
  if (last.starts_with("-")) {
    add_flags(*at, all);
    if (at != &app) add_flags(app, all);
  } else if (at == &app || at->get_name() == "create") {
    for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; }))
      if (!sub->get_name().starts_with("__")) all.push_back(sub->get_name());
  } else if (at->get_name() == "completion") {
    all = {"bash", "zsh", "fish"};
  } else if (api) {
    const bool processes = at->get_name() == "logs" || last.starts_with("proc");
    const auto listed = list_all(*api, processes ? Kind::kProcess : Kind::kSandbox, "");
    if (listed)
      for (const auto& item : listed->items)
        all.push_back((processes ? "process/" : "sb/") + text_at(item, "metadata.name"));
    if (at->get_name() == "get")
      for (const char* kind : {"sandboxes", "processes", "events"}) all.emplace_back(kind);
  }
  std::erase_if(all, [&](const std::string& word) { return !word.starts_with(last); });
  std::ranges::sort(all);
  return all;
}

}  // namespace nodus::cli
