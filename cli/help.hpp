// What `nodus --help` says, and completion for shells.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "cli/api.hpp"

namespace CLI {
class App;
}

namespace nodus::cli {

// "Usage: nodus exec NAME -- COMMAND... [flags]", then the flags, then examples.
class HelpText : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = "Usage: " + (name.starts_with("nodus") ? name : "nodus " + name);
    for (const CLI::Option* option :
         app->get_options([](const CLI::Option* o) { return o->get_positional(); }))
      usage += " " + option->get_option_text();
    return "\n" + usage + " [flags]\n";
  }
  std::string make_positionals(const CLI::App*) const override { return ""; }
};

// Of the whole program, with its commands by what people want to do.
std::string overview();

// A script to be read by `shell` (bash, zsh, fish); empty: there is none for it.
std::string completion_script(const std::string& shell);

// What may stand in place of the last word of `line`. `api` is null where there is none: then no names.
std::vector<std::string> complete(const CLI::App& app, const std::string& line, Api* api);

}  // namespace nodus::cli
