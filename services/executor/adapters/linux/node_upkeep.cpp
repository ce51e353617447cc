// What the host does for the whole node: the check before registering, removing what belongs to nobody.
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "libs/linux/files.hpp"
#include "libs/linux/loop.hpp"
#include "libs/linux/mount.hpp"
#include "libs/telemetry/log.hpp"
#include "services/executor/adapters/linux/linux_host.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;

static std::unexpected<Error> missing(const std::string& layer, const Error& error) {
  return fail(Code::kUnavailable, "LayerMissing",
              "This node does not register: " + layer + " cannot be set up here (" + error.message + ").");
}

// Of those that nodusd and the runtime cannot do without, what a container or a unit did not give it.
static std::string capabilities_missing() {
  constexpr std::pair<int, const char*> kNeeded[] = {
      {CAP_CHOWN, "CAP_CHOWN"},         {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
      {CAP_FOWNER, "CAP_FOWNER"},       {CAP_KILL, "CAP_KILL"},
      {CAP_SETGID, "CAP_SETGID"},       {CAP_SETUID, "CAP_SETUID"},
      {CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, held) != 0) return "its capabilities";
  std::string names;
  for (const auto& [bit, name] : kNeeded)
    if ((held[CAP_TO_INDEX(bit)].effective & CAP_TO_MASK(bit)) == 0)
      names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

Result<void> LinuxHost::self_check() {
  if (::geteuid() != 0)
    return fail(Code::kForbidden, "LayerMissing", "This node does not register: nodusd must run as root.");
  if (const auto names = capabilities_missing(); !names.empty())
    return fail(Code::kForbidden, "LayerMissing",
                "This node does not register: nodusd runs without " + names + ".");
  if (auto version = runtime_->version(); !version)
    return missing("the runtime " + runtime_->name(), version.error());
  if (::access(options_.helper.c_str(), X_OK) != 0)
    return fail(
        Code::kUnavailable, "LayerMissing",
        "This node does not register: helper.path: there is no program " + options_.helper.native() + ".");
  auto pool = AddressPool::parse(options_.pool);
  if (!pool) return std::unexpected(pool.error());
  const SlotKey key{SandboxUid("check"), 0};
  Network network(layout_.label + "c", *pool);  // beside the node's own, which may carry running slots
  const auto clean = [&]() -> Result<void> {
    if (auto gone = network.destroy(layout_.netns(key), 0); !gone) return gone;
    if (auto gone = network.remove_all(); !gone) return gone;
    if (auto gone = disk_.destroy(key); !gone) return gone;
    return linux::remove_tree(layout_.slot(key));
  };
  if (auto cleaned = clean(); !cleaned) return missing("a Sandbox's network and firewall", cleaned.error());
  if (auto made = linux::make_directories(layout_.slot(key)); !made) return made;
  auto networked = network.sweep({});
  if (networked) networked = network.create(layout_.netns(key), 0, false);
  constexpr int64_t kDiskBytes = 64LL * 1024 * 1024;
  auto disk = disk_.create(key, kDiskBytes);
  if (disk) {
    const auto lower = layout_.slot(key) / "lower";
    disk = linux::make_directories(lower);
    if (disk) disk = disk_.mount_rootfs(key, lower);
  }
  auto limits = cgroup_.check();
  auto cleaned = clean();
  if (!networked) return missing("a Sandbox's network and firewall", networked.error());
  if (!disk) return missing("a Sandbox's disk", disk.error());
  if (!limits) return missing("a Sandbox's resource limits", limits.error());
  return cleaned;
}

void LinuxHost::unpack_catalog() {
  for (const auto& [name, digest] : images_.catalog()) {
    auto image = images_.ensure(name, digest);
    if (!image) log::warn("image.refused", {{"image", name}, {"message", image.error().message}});
  }
}

Result<void> LinuxHost::sweep(const std::vector<SlotRecord>& known) {
  std::set<std::string> names;
  std::vector<Network::Known> links;
  for (const auto& record : known) {
    names.insert(record.order.key.text());
    links.push_back({record.network_index, record.order.open_egress});
  }
  auto ids = runtime_->list();
  if (!ids) return std::unexpected(ids.error());
  for (const auto& id : *ids) {
    if (names.contains(id)) continue;
    if (auto gone = runtime_->destroy(id); !gone) return gone;
    if (auto gone = cgroup_.remove(id); !gone) return gone;
  }
  // Mounts of slots without a record; the first part below slots/ is the slot.
  auto mounts = linux::mounts_below(layout_.slots());
  if (!mounts) return std::unexpected(mounts.error());
  for (const auto& mount : *mounts)
    if (const auto inside = mount.lexically_relative(layout_.slots());
        !inside.empty() && !names.contains(inside.begin()->native()))
      if (auto gone = linux::unmount(mount); !gone) return gone;
  return network_.sweep(links);
}

Result<void> LinuxHost::purge() {
  if (auto swept = sweep({}); !swept) return swept;
  if (auto gone = network_.remove_all(); !gone) return gone;
  auto mounts = linux::mounts_below(layout_.state);
  if (!mounts) return std::unexpected(mounts.error());
  for (const auto& mount : *mounts)
    if (mount != layout_.state)
      if (auto gone = linux::unmount(mount); !gone) return gone;
  for (const auto& device : linux::loops_below(layout_.state))
    if (auto gone = linux::detach_loop(device); !gone) return gone;
  if (auto gone = cgroup_.remove_all(); !gone) return gone;
  for (const auto& path : {layout_.slots(), layout_.templates(), layout_.skeleton(), layout_.state / "runsc",
                           layout_.state / "runc"})
    if (auto removed = linux::remove_tree(path); !removed) return removed;
  return {};
}

}  // namespace nodus::executor
