// Network namespaces, kept alive by a bind mount on a file, so that the path is the label.
#pragma once

#include <filesystem>
#include <functional>

#include "libs/base/error.hpp"

namespace nodus::linux {

// A new namespace bound to `file`, with lo up and IPv6 off. `inside` runs in it, on a thread of its own.
Result<void> make_netns(const std::filesystem::path& file, const std::function<Result<void>()>& inside = {});
Result<void> remove_netns(const std::filesystem::path& file);
// Runs `work` inside the namespace, on a thread of its own.
Result<void> run_in_netns(const std::filesystem::path& file, const std::function<Result<void>()>& work);

}  // namespace nodus::linux
