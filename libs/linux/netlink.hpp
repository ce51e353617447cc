// Links, addresses and routes over rtnetlink, in the network namespace of the calling thread. One use at a
// time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libs/base/error.hpp"
#include "libs/linux/unique_fd.hpp"

namespace nodus::linux {

using Ipv4 = uint32_t;  // host byte order: 10.0.0.1 is 0x0a000001
std::string format_ipv4(Ipv4 address);
Result<Ipv4> parse_ipv4(const std::string& text);

struct VethPair {
  std::string name;       // the end here
  std::string mac;        // "02:…"
  std::string peer_name;  // the end in peer_netns
  std::string peer_mac;
  int peer_netns = -1;  // descriptor
};

class Netlink {
 public:
  Netlink();
  Result<void> add_veth(const VethPair& pair);
  Result<void> set_up(const std::string& link);
  Result<void> add_address(const std::string& link, Ipv4 address, int prefix);
  Result<void> add_default_route(Ipv4 gateway);
  Result<void> delete_link(const std::string& link);  // one that is not there is fine
  Result<std::vector<std::string>> links();

 private:
  class Message;
  Result<int> index_of(const std::string& link);
  Result<void> transact(Message& message);
  UniqueFd socket_;
  uint32_t sequence_ = 0;
};

}  // namespace nodus::linux
