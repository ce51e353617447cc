// Files as the node needs them: written whole or not at all, and paths of a Sandbox resolved by the kernel
// inside the Sandbox's root (openat2), never by joining strings.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/linux/unique_fd.hpp"

namespace nodus::linux {

Result<std::string> read_file(const std::filesystem::path& path, size_t limit = 4 * 1024 * 1024);
Result<void> write_file(const std::filesystem::path& path,
                        std::string_view bytes);  // no flush: sysfs, caches
// Temporary file, fdatasync, rename, and a flush of the directory.
Result<void> write_file_durably(const std::filesystem::path& path, std::string_view bytes);
Result<void> make_directories(const std::filesystem::path& path, unsigned mode = 0700);
Result<void> remove_tree(const std::filesystem::path& path);  // does not cross into other filesystems

// Waits until there is an entry at `path`, whose directory exists. False at the timeout.
bool wait_for_file(const std::filesystem::path& path, Millis timeout);

// Opens `inside` below `root` as chroot would see it: symlinks cannot lead out, magic links are refused.
Result<UniqueFd> open_in_root(int root_fd, const std::string& inside, int flags, unsigned mode = 0);
// What is there must be a regular file; never waits, as opening a FIFO would.
Result<UniqueFd> open_file_in_root(int root_fd, const std::string& inside, int flags, unsigned mode = 0);
Result<std::string> read_file_in_root(int root_fd, const std::string& inside, size_t limit = 4 * 1024 * 1024);
// Makes `inside` and its parents; new directories belong to uid:gid. The descriptor is O_PATH.
Result<UniqueFd> make_directories_in_root(int root_fd, const std::string& inside, unsigned mode, unsigned uid,
                                          unsigned gid);
// The entry itself, not what a symlink points to, is a directory.
bool is_real_directory(const std::filesystem::path& path);

}  // namespace nodus::linux
