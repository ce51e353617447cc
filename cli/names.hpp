// Names as they are typed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::cli {

// "hello", "sb/hello", "sandbox/hello", "sandboxes/hello" → "hello". Errors: LocalFault.
Result<std::string> sandbox_name(const std::string& text);
Result<std::vector<std::string>> sandbox_names(const std::vector<std::string>& texts);

// "sb/hello:/workspace/a.txt"; nothing when `text` is a local path.
struct RemotePath {
  std::string sandbox;
  std::string path;
};
std::optional<RemotePath> remote_path(const std::string& text);

enum class Kind { kSandbox, kProcess, kEvent, kBudget };
std::string singular(Kind kind);  // sandbox
std::string plural(Kind kind);    // sandboxes, as in paths

struct Target {
  Kind kind = Kind::kSandbox;
  std::string name;

  std::string path() const { return "/" + plural(kind) + "/" + name; }
  std::string text() const { return plural(kind) + "/" + name; }  // as messages name it
};
// What `get` and its like were asked for: all of a kind ("sandboxes"), some of it ("sandboxes a b"), or
// objects of any kind ("sb/a process/sb-a-1").
struct Selection {
  Kind kind = Kind::kSandbox;  // when `targets` is empty
  std::vector<Target> targets;
};
Result<Selection> selection(const std::vector<std::string>& words);
// Objects only. A word without a prefix is a Sandbox.
Result<std::vector<Target>> targets_of(const std::vector<std::string>& words);

}  // namespace nodus::cli
