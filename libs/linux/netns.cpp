#include "libs/linux/netns.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "libs/linux/files.hpp"
#include "libs/linux/mount.hpp"
#include "libs/linux/netlink.hpp"
#include "libs/linux/system_error.hpp"

namespace nodus::linux {
namespace fs = std::filesystem;

static Result<void> set_up(const fs::path& file) {
  if (::unshare(CLONE_NEWNET) != 0) return system_failure(errno, "unshare", "network namespace");
  if (auto bound = mount("/proc/thread-self/ns/net", file, "", MS_BIND); !bound) return bound;
  // A kernel without IPv6 has no such file, which is as good.
  for (const char* scope : {"all", "default"})
    if (const std::string path = std::string("/proc/sys/net/ipv6/conf/") + scope + "/disable_ipv6";
        ::access(path.c_str(), F_OK) == 0)
      if (auto off = write_file(path, "1"); !off) return off;
  Netlink netlink;
  return netlink.set_up("lo");
}

Result<void> make_netns(const fs::path& file, const std::function<Result<void>()>& inside) {
  {
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) return system_failure(errno, "create", file.native());
  }
  Result<void> result;
  std::thread([&] {
    result = set_up(file);
    if (result && inside) result = inside();
  }).join();
  return result;
}

Result<void> remove_netns(const fs::path& file) {
  if (auto gone = unmount(file); !gone) return gone;
  if (::unlink(file.c_str()) != 0 && errno != ENOENT) return system_failure(errno, "unlink", file.native());
  return {};
}

Result<void> run_in_netns(const fs::path& file, const std::function<Result<void>()>& work) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure(errno, "open", file.native());
  Result<void> result;
  std::thread([&] {
    if (::setns(fd.get(), CLONE_NEWNET) != 0)
      result = system_failure(errno, "enter", file.native());
    else
      result = work();
  }).join();
  return result;
}

}  // namespace nodus::linux
