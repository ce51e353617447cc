#include "cli/names.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace nodus::cli {

namespace {

constexpr std::array<std::string_view, 3> kSandbox{"sb", "sandbox", "sandboxes"};
constexpr std::array<std::string_view, 3> kProcess{"proc", "process", "processes"};

std::unexpected<Error> local(std::string message) {
  return fail(Code::kInvalid, "LocalFault", std::move(message));
}

// Only what keeps a URL in one piece: the server knows the rules of names.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 253 &&
         std::ranges::all_of(text,
                             [](char c) {
                               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                      (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
                             }) &&
         text != "." && text != "..";
}

bool among(const std::array<std::string_view, 3>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

Result<std::string> sandbox_name(const std::string& text) {
  std::string name = text;
  if (const size_t slash = text.find('/'); slash != std::string::npos) {
    if (!among(kSandbox, std::string_view(text).substr(0, slash)))
      return local("\"" + text + "\" is not a Sandbox such as sb/hello.");
    name = text.substr(slash + 1);
  }
  if (!is_name(name)) return local("\"" + text + "\" is not the name of a Sandbox.");
  return name;
}

std::optional<RemotePath> remote_path(const std::string& text) {
  const size_t slash = text.find('/');
  const size_t colon = text.find(':');
  if (slash == std::string::npos || colon == std::string::npos || colon < slash) return std::nullopt;
  if (!among(kSandbox, std::string_view(text).substr(0, slash))) return std::nullopt;
  return RemotePath{text.substr(slash + 1, colon - slash - 1), text.substr(colon + 1)};
}

Result<Target> get_target(const std::string& resource, const std::string& name) {
  const size_t slash = resource.find('/');
  const std::string_view kind = std::string_view(resource).substr(0, slash);
  Target target;
  if (among(kProcess, kind)) {
    target.kind = Target::Kind::kProcesses;
  } else if (!among(kSandbox, kind)) {
    return local("\"" + resource + "\" is not one of sandboxes, sb/NAME, processes, process/NAME.");
  }
  target.name = slash == std::string::npos ? name : resource.substr(slash + 1);
  if (slash != std::string::npos && !name.empty())
    return local("Give one name: " + resource + " or " + name + ".");
  const bool named = slash != std::string::npos || !name.empty();
  if (named && !is_name(target.name)) return local("\"" + target.name + "\" is not a name.");
  return target;
}

}  // namespace nodus::cli
