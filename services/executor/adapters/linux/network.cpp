#include "services/executor/adapters/linux/network.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>

#include "libs/base/random.hpp"
#include "libs/linux/files.hpp"
#include "libs/linux/netns.hpp"
#include "libs/linux/system_error.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;

Result<AddressPool> AddressPool::parse(const std::string& cidr) {
  const size_t slash = cidr.find('/');
  auto base = linux::parse_ipv4(cidr.substr(0, slash));
  int prefix = 0;
  if (slash == std::string::npos || !base ||
      std::from_chars(cidr.data() + slash + 1, cidr.data() + cidr.size(), prefix).ec != std::errc() ||
      prefix < 16 || prefix > 24 || (*base & (0xffffffffU >> prefix)) != 0)
    return fail(Code::kInvalid, "FieldValueInvalid",
                "network.pool: \"" + cidr + "\" is not a network of /16 to /24, such as 10.201.0.0/16.");
  AddressPool pool;
  pool.base_ = *base;
  pool.prefix_ = prefix;
  return pool;
}

std::string AddressPool::text() const {
  return linux::format_ipv4(base_) + "/" + std::to_string(prefix_);
}

Network::Network(std::string label, AddressPool pool)
    : label_(std::move(label)),
      pool_(pool),
      firewall_(label_, pool.text()),
      last_(static_cast<int>(random_below(static_cast<uint64_t>(pool.pairs())))) {}

std::string Network::link_name(int index) const {
  return fmt::format("{}-{:x}", label_, index);
}

// The device of the default route, or empty: no way out of this machine; the Sandbox finds out by itself.
static std::string find_uplink() {
  std::istringstream lines(linux::read_file("/proc/net/route").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string device;
    std::string destination;
    fields >> device >> destination;
    if (destination == "00000000") return device;
  }
  return "";
}

// With ip_forward the machine is a router by its owner's will, and what it forwards is not ours to drop.
static std::string uplink_of_slots() {
  const bool router = linux::read_file("/proc/sys/net/ipv4/ip_forward").value_or("1").starts_with('1');
  return router ? "" : find_uplink();
}

Link Network::link_of(int index, bool open) const {
  return {.index = index,
          .name = link_name(index),
          .mac = fmt::format("02:6e:64:{:02x}:{:02x}:02", index >> 8 & 255, index & 255),
          .address = pool_.inner(index),
          .open = open,
          .uplink = open ? uplink_of_slots() : ""};
}

Result<int> Network::take_index(const std::vector<int>& used) {
  const std::lock_guard lock(mutex_);
  for (int tries = 0; tries < pool_.pairs(); ++tries) {
    last_ = last_ % (pool_.pairs() - 1) + 1;
    if (std::find(used.begin(), used.end(), last_) == used.end()) return last_;
  }
  return fail(Code::kUnavailable, "StartFailed", "All addresses of the network pool are in use.");
}

static Result<void> set_interface(const std::string& link, const char* family, const char* name,
                                  const char* value) {
  const fs::path path = fs::path("/proc/sys/net") / family / "conf" / link / name;
  if (::access(path.c_str(), F_OK) != 0) return {};  // a kernel without IPv6
  return linux::write_file(path, value);
}

// Only the links that need it forward; the machine does not become a router between its other networks.
static Result<void> forward_to_uplink(const std::string& link) {
  if (auto set = set_interface(link, "ipv4", "forwarding", "1"); !set) return set;
  const auto uplink = find_uplink();
  return uplink.empty() ? Result<void>() : set_interface(uplink, "ipv4", "forwarding", "1");
}

Result<void> Network::create(const fs::path& netns, int index, bool open) {
  const Link link = link_of(index, open);
  if (auto made = linux::make_netns(netns); !made) return made;
  const linux::UniqueFd inside(::open(netns.c_str(), O_RDONLY | O_CLOEXEC));
  if (!inside) return linux::system_failure(errno, "open", netns.native());
  linux::Netlink host;
  if (auto added =
          host.add_veth({.name = link.name,
                         .mac = fmt::format("02:6e:64:{:02x}:{:02x}:01", index >> 8 & 255, index & 255),
                         .peer_name = "eth0",
                         .peer_mac = link.mac,
                         .peer_netns = inside.get()});
      !added)
    return added;
  if (auto added = firewall_.add(link); !added) return added;  // before the link is up
  if (auto off = set_interface(link.name, "ipv6", "disable_ipv6", "1"); !off) return off;
  if (auto strict = set_interface(link.name, "ipv4", "rp_filter", "1"); !strict) return strict;
  if (open)
    if (auto forwarded = forward_to_uplink(link.name); !forwarded) return forwarded;
  if (auto added = host.add_address(link.name, pool_.host(index), AddressPool::kPairPrefix); !added)
    return added;
  if (auto up = host.set_up(link.name); !up) return up;
  return linux::run_in_netns(netns, [&]() -> Result<void> {
    linux::Netlink peer;
    if (auto added = peer.add_address("eth0", link.address, AddressPool::kPairPrefix); !added) return added;
    if (auto up = peer.set_up("eth0"); !up) return up;
    if (open) return peer.add_default_route(pool_.host(index));
    return {};
  });
}

Result<void> Network::destroy(const fs::path& netns, int index) {
  linux::Netlink host;
  const auto name = link_name(index);
  if (auto gone = host.delete_link(name); !gone) return gone;
  firewall_.remove(index, name);
  return linux::remove_netns(netns);
}

Result<void> Network::sweep(const std::vector<Known>& known) {
  linux::Netlink host;
  auto links = host.links();
  if (!links) return std::unexpected(links.error());
  std::vector<Link> kept;
  for (const auto& slot : known)
    if (auto link = link_of(slot.index, slot.open); std::count(links->begin(), links->end(), link.name) > 0)
      kept.push_back(std::move(link));
  for (const auto& name : *links) {
    if (!name.starts_with(label_ + "-")) continue;
    if (std::none_of(kept.begin(), kept.end(), [&](const Link& link) { return link.name == name; }))
      if (auto gone = host.delete_link(name); !gone) return gone;
  }
  return firewall_.rebuild(kept);
}

Result<void> Network::remove_all() {
  linux::Netlink host;
  auto links = host.links();
  if (!links) return std::unexpected(links.error());
  for (const auto& name : *links)
    if (name.starts_with(label_ + "-"))
      if (auto gone = host.delete_link(name); !gone) return gone;
  return firewall_.remove_all();
}

}  // namespace nodus::executor
