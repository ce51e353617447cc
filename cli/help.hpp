// What `nodus --help` says, and completion for shells.
#pragma once

#include <string>
#include <vector>

#include "cli/api.hpp"

namespace CLI {
class App;
}

namespace nodus::cli {

// Of the whole program, with its commands by what people want to do.
std::string overview();

// A script to be read by `shell` (bash, zsh, fish); empty: there is none for it.
std::string completion_script(const std::string& shell);

// What may stand in place of the last word of `line`. `api` is null where there is none: then no names.
std::vector<std::string> complete(const CLI::App& app, const std::string& line, Api* api);

}  // namespace nodus::cli
