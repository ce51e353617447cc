// The host-side firewall of the slots, in nftables. gVisor sends through AF_PACKET, past any rule inside the
// Sandbox's own namespace, so all rules hold on the host's end of the link:
//   netdev ingress of the link  only this slot's MAC and address may come out; Deny: nothing may;
//   input                       nothing from a slot reaches the machine;
//   forward                     Open: to public addresses only; back only what belongs to it; nothing else
//                               from an uplink that forwards for the slots only;
//   postrouting                 Open: translated to the machine's address.
// One table a node and family, named after its label; every change is one transaction.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "libs/linux/netlink.hpp"
#include "libs/linux/nft.hpp"

namespace nodus::executor {

struct Link {
  int index = 0;            // of the address pair
  std::string name;         // the host's end
  std::string mac;          // of the inner end
  linux::Ipv4 address = 0;  // of the inner end
  bool open = false;        // policy Open
  std::string uplink;       // forwards for the slots only; empty: there is none, or the machine is a router
};

struct Traffic {
  int64_t out_bytes = 0;  // from the Sandbox
  int64_t in_bytes = 0;
  int64_t denied_packets = 0;
};

class Firewall {
 public:
  // `pool` as "10.201.0.0/16": where the slots' addresses come from.
  Firewall(std::string label, std::string pool);
  Result<void> rebuild(const std::vector<Link>& links);  // replaces all that was there
  Result<void> add(const Link& link);                    // the link exists and is still down
  void remove(int index, const std::string& name);       // the link is gone
  Result<void> remove_all();
  Result<std::map<int, Traffic>> traffic();

 private:
  std::string base_rules() const;
  std::string link_rules(const Link& link) const;
  const std::string label_;
  const std::string pool_;
  linux::Nft nft_;
};

}  // namespace nodus::executor
