// Names as they are typed.
#pragma once

#include <optional>
#include <string>

#include "libs/base/error.hpp"

namespace nodus::cli {

// "hello", "sb/hello", "sandbox/hello", "sandboxes/hello" → "hello". Errors: LocalFault.
Result<std::string> sandbox_name(const std::string& text);

// "sb/hello:/workspace/a.txt"; nothing when `text` is a local path.
struct RemotePath {
  std::string sandbox;
  std::string path;
};
std::optional<RemotePath> remote_path(const std::string& text);

// What `get` was asked for.
struct Target {
  enum class Kind { kSandboxes, kProcesses } kind = Kind::kSandboxes;
  std::string name;  // empty: all
};
Result<Target> get_target(const std::string& resource, const std::string& name);

}  // namespace nodus::cli
