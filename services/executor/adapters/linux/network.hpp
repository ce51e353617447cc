// The network of a slot: a namespace of its own, never used twice (runsc takes the address off the link), a
// link to the machine, and the firewall on the machine's end. No IPv6 on either end.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "services/executor/adapters/linux/firewall.hpp"

namespace nodus::executor {

// Address pairs of a pool: pair 0 is the node's self-check, each other one is a slot's.
class AddressPool {
 public:
  static Result<AddressPool> parse(const std::string& cidr);  // "10.201.0.0/16", /16 to /24
  int pairs() const { return 1 << (kPairPrefix - prefix_); }
  linux::Ipv4 host(int index) const { return base_ + static_cast<uint32_t>(index) * 4 + 1; }
  linux::Ipv4 inner(int index) const { return host(index) + 1; }
  std::string text() const;
  static constexpr int kPairPrefix = 30;

 private:
  linux::Ipv4 base_ = 0;
  int prefix_ = 16;
};

class Network {
 public:
  Network(std::string label, AddressPool pool);
  // `netns` is the file that the namespace is bound to.
  Result<void> create(const std::filesystem::path& netns, int index, bool open);
  Result<void> destroy(const std::filesystem::path& netns, int index);  // what is not there is fine

  // An index not in `used`; walks around the pool, so that an address comes back as late as can be.
  Result<int> take_index(const std::vector<int>& used);
  struct Known {
    int index = 0;
    bool open = false;
  };
  // Removes links that belong to nobody and makes the firewall anew for those that are there.
  Result<void> sweep(const std::vector<Known>& known);
  Result<void> remove_all();
  Firewall& firewall() { return firewall_; }
  std::string link_name(int index) const;

 private:
  Link link_of(int index, bool open) const;
  const std::string label_;
  const AddressPool pool_;
  Firewall firewall_;
  std::mutex mutex_;
  int last_ = 0;
};

}  // namespace nodus::executor
