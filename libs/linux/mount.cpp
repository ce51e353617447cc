#include "libs/linux/mount.hpp"

#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "libs/linux/files.hpp"
#include "libs/linux/system_error.hpp"

namespace nodus::linux {
namespace fs = std::filesystem;

Result<void> mount(const std::string& source, const fs::path& target, const std::string& type,
                   unsigned long flags, const std::string& options) {
  if (::mount(source.c_str(), target.c_str(), type.empty() ? nullptr : type.c_str(), flags,
              options.empty() ? nullptr : options.c_str()) != 0)
    return system_failure(errno, "mount " + type + " at", target.native());
  return {};
}

Result<void> unmount(const fs::path& target) {
  if (::umount2(target.c_str(), UMOUNT_NOFOLLOW) == 0) return {};
  if (errno == EINVAL || errno == ENOENT) return {};
  if (errno == EBUSY && ::umount2(target.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH) == 0) return {};
  return system_failure(errno, "unmount", target.native());
}

// Octal escapes of /proc/self/mountinfo: space, tab, newline, backslash.
static std::string unescape(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result.push_back(
          static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0'));
      i += 3;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

static bool is_below(const fs::path& path, const fs::path& directory) {
  return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first == directory.end();
}

Result<std::vector<fs::path>> mounts_below(const fs::path& directory) {
  auto table = read_file("/proc/self/mountinfo", 64UL * 1024 * 1024);
  if (!table) return std::unexpected(table.error());
  std::vector<fs::path> found;
  std::istringstream lines(*table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 5; ++i) fields >> field;
    if (fs::path point = unescape(field); is_below(point, directory)) found.push_back(std::move(point));
  }
  std::reverse(found.begin(), found.end());
  return found;
}

bool is_mounted(const fs::path& target) {
  auto found = mounts_below(target);
  return found && std::find(found->begin(), found->end(), target) != found->end();
}

}  // namespace nodus::linux
