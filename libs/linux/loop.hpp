// Loop devices.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libs/base/error.hpp"
#include "libs/linux/unique_fd.hpp"

namespace nodus::linux {

struct LoopDevice {
  std::string path;  // /dev/loop7
  UniqueFd fd;       // keep it until the filesystem is mounted: the device frees itself at the last close
};

// A free device bound to `file`; it frees itself when nothing holds it any more (autoclear).
Result<LoopDevice> attach_loop(const std::filesystem::path& file);
// Devices whose file lies below `directory`.
std::vector<std::string> loops_below(const std::filesystem::path& directory);
Result<void> detach_loop(const std::string& device);

}  // namespace nodus::linux
