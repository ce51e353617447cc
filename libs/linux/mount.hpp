// Mounts of this mount namespace.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libs/base/error.hpp"

namespace nodus::linux {

Result<void> mount(const std::string& source, const std::filesystem::path& target, const std::string& type,
                   unsigned long flags, const std::string& options = {});
// Detaches lazily when something still uses it. Not mounted is fine; so is not there.
Result<void> unmount(const std::filesystem::path& target);
bool is_mounted(const std::filesystem::path& target);
// Mount points at or below `directory`, deepest (newest) first.
Result<std::vector<std::filesystem::path>> mounts_below(const std::filesystem::path& directory);

}  // namespace nodus::linux
