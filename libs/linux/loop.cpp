#include "libs/linux/loop.hpp"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>

#include "libs/linux/files.hpp"
#include "libs/linux/system_error.hpp"

namespace nodus::linux {
namespace fs = std::filesystem;

// Without udev or devtmpfs the node of a new device is missing.
static Result<UniqueFd> open_device(const std::string& path, int number) {
  constexpr unsigned kLoopMajor = 7;
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd && errno == ENOENT) {
    if (::mknod(path.c_str(), S_IFBLK | 0600, makedev(kLoopMajor, static_cast<unsigned>(number))) != 0 &&
        errno != EEXIST)
      return system_failure(errno, "make", path);
    fd.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }
  if (!fd) return system_failure(errno, "open", path);
  return fd;
}

Result<LoopDevice> attach_loop(const fs::path& file) {
  const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) return system_failure(errno, "open", "/dev/loop-control");
  const UniqueFd backing(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!backing) return system_failure(errno, "open", file.native());
  loop_config config{};
  config.fd = static_cast<uint32_t>(backing.get());
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
  std::strncpy(reinterpret_cast<char*>(config.info.lo_file_name), file.c_str(), LO_NAME_SIZE - 1);
  constexpr int kTries = 64;  // another process may take the free device first
  for (int i = 0; i < kTries; ++i) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return system_failure(errno, "find a free loop device");
    LoopDevice device{"/dev/loop" + std::to_string(number), {}};
    auto fd = open_device(device.path, number);
    if (!fd) return std::unexpected(fd.error());
    if (::ioctl(fd->get(), LOOP_CONFIGURE, &config) == 0) {
      device.fd = std::move(*fd);
      return device;
    }
    if (errno != EBUSY) return system_failure(errno, "configure", device.path);
  }
  return system_failure(EBUSY, "configure a loop device for", file.native());
}

std::vector<std::string> loops_below(const fs::path& directory) {
  std::vector<std::string> found;
  std::error_code error;
  const std::string prefix = directory.native() + "/";
  for (fs::directory_iterator it("/sys/block", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().native();
    if (!name.starts_with("loop")) continue;
    auto backing = read_file(it->path() / "loop/backing_file");
    if (backing && backing->starts_with(prefix)) found.push_back("/dev/" + name);
  }
  return found;
}

Result<void> detach_loop(const std::string& device) {
  const UniqueFd fd(::open(device.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return system_failure(errno, "open", device);
  if (::ioctl(fd.get(), LOOP_CLR_FD, 0) != 0 && errno != ENXIO)
    return system_failure(errno, "detach", device);
  return {};
}

}  // namespace nodus::linux
