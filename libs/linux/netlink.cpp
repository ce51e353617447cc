#include "libs/linux/netlink.hpp"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "libs/base/check.hpp"
#include "libs/linux/system_error.hpp"

namespace nodus::linux {

std::string format_ipv4(Ipv4 address) {
  return std::to_string(address >> 24) + "." + std::to_string(address >> 16 & 255) + "." +
         std::to_string(address >> 8 & 255) + "." + std::to_string(address & 255);
}

Result<Ipv4> parse_ipv4(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1)
    return fail(Code::kInvalid, "FieldValueInvalid", "\"" + text + "\" is not an IPv4 address.");
  return ntohl(address.s_addr);
}

// A request under construction: fixed header, then attributes, some nested.
class Netlink::Message {
 public:
  Message(uint16_t type, uint16_t flags) {
    auto* header = reinterpret_cast<nlmsghdr*>(buffer_.data());
    header->nlmsg_len = NLMSG_LENGTH(0);
    header->nlmsg_type = type;
    header->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
  }
  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(buffer_.data()); }

  template <class T>
  void body(const T& value) {
    put(&value, sizeof value);
  }
  void attribute(uint16_t type, const void* data, size_t size) {
    const rtattr head{static_cast<uint16_t>(RTA_LENGTH(size)), type};
    put(&head, sizeof head);
    put(data, size);
  }
  template <class T>
  void value(uint16_t type, const T& data) {
    attribute(type, &data, sizeof data);
  }
  void text(uint16_t type, const std::string& data) { attribute(type, data.c_str(), data.size() + 1); }
  size_t open(uint16_t type) {
    const size_t at = header()->nlmsg_len;
    attribute(type, nullptr, 0);
    return at;
  }
  void close(size_t at) {
    auto* head = reinterpret_cast<rtattr*>(buffer_.data() + at);
    head->rta_len = static_cast<uint16_t>(header()->nlmsg_len - at);
  }

 private:
  void put(const void* data, size_t size) {
    const size_t at = header()->nlmsg_len;
    const size_t end = at + NLMSG_ALIGN(size);
    CHECK(end <= buffer_.size());
    if (size > 0) std::memcpy(buffer_.data() + at, data, size);
    header()->nlmsg_len = static_cast<uint32_t>(end);
  }
  alignas(nlmsghdr) std::array<char, 2048> buffer_{};
};

Netlink::Netlink() : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  const timeval limit{5, 0};
  if (socket_) ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

Result<void> Netlink::transact(Message& message) {
  if (!socket_) return system_failure(EBADF, "open", "netlink");
  message.header()->nlmsg_seq = ++sequence_;
  if (::send(socket_.get(), message.header(), message.header()->nlmsg_len, 0) < 0)
    return system_failure(errno, "send", "netlink");
  alignas(nlmsghdr) std::array<char, 8192> answer;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), answer.data(), answer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(errno, "receive", "netlink");
    const auto* head = reinterpret_cast<nlmsghdr*>(answer.data());
    if (static_cast<size_t>(got) < NLMSG_LENGTH(sizeof(nlmsgerr)) || head->nlmsg_type != NLMSG_ERROR ||
        head->nlmsg_seq != sequence_)
      continue;
    const int error = reinterpret_cast<const nlmsgerr*>(NLMSG_DATA(head))->error;
    if (error != 0) return system_failure(-error, "netlink");
    return {};
  }
}

static std::array<uint8_t, 6> mac_bytes(const std::string& text) {
  std::array<uint8_t, 6> bytes{};
  CHECK(text.size() == 17, "{}", text);
  for (size_t i = 0; i < 6; ++i)
    bytes[i] = static_cast<uint8_t>(std::stoi(text.substr(i * 3, 2), nullptr, 16));
  return bytes;
}

Result<void> Netlink::add_veth(const VethPair& pair) {
  Message message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  message.body(ifinfomsg{});
  message.text(IFLA_IFNAME, pair.name);
  message.value(IFLA_ADDRESS, mac_bytes(pair.mac));
  const size_t info = message.open(IFLA_LINKINFO);
  message.text(IFLA_INFO_KIND, "veth");
  const size_t data = message.open(IFLA_INFO_DATA);
  const size_t peer = message.open(VETH_INFO_PEER);
  message.body(ifinfomsg{});
  message.text(IFLA_IFNAME, pair.peer_name);
  message.value(IFLA_ADDRESS, mac_bytes(pair.peer_mac));
  message.value(IFLA_NET_NS_FD, pair.peer_netns);
  message.close(peer);
  message.close(data);
  message.close(info);
  auto added = transact(message);
  if (!added) added.error().message = "add link " + pair.name + ": " + added.error().message;
  return added;
}

Result<int> Netlink::index_of(const std::string& link) {
  const unsigned index = ::if_nametoindex(link.c_str());
  if (index == 0) return system_failure(errno, "find link", link);
  return static_cast<int>(index);
}

Result<void> Netlink::set_up(const std::string& link) {
  auto index = index_of(link);
  if (!index) return std::unexpected(index.error());
  Message message(RTM_NEWLINK, 0);
  ifinfomsg info{};
  info.ifi_index = *index;
  info.ifi_flags = IFF_UP;
  info.ifi_change = IFF_UP;
  message.body(info);
  return transact(message);
}

Result<void> Netlink::add_address(const std::string& link, Ipv4 address, int prefix) {
  auto index = index_of(link);
  if (!index) return std::unexpected(index.error());
  Message message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
  ifaddrmsg info{};
  info.ifa_family = AF_INET;
  info.ifa_prefixlen = static_cast<uint8_t>(prefix);
  info.ifa_index = static_cast<uint32_t>(*index);
  message.body(info);
  message.value(IFA_LOCAL, htonl(address));
  message.value(IFA_ADDRESS, htonl(address));
  return transact(message);
}

Result<void> Netlink::add_default_route(Ipv4 gateway) {
  Message message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
  rtmsg info{};
  info.rtm_family = AF_INET;
  info.rtm_table = RT_TABLE_MAIN;
  info.rtm_protocol = RTPROT_STATIC;
  info.rtm_scope = RT_SCOPE_UNIVERSE;
  info.rtm_type = RTN_UNICAST;
  message.body(info);
  message.value(RTA_GATEWAY, htonl(gateway));
  return transact(message);
}

Result<void> Netlink::delete_link(const std::string& link) {
  auto index = index_of(link);
  if (!index) return {};
  Message message(RTM_DELLINK, 0);
  ifinfomsg info{};
  info.ifi_index = *index;
  message.body(info);
  return transact(message);
}

Result<std::vector<std::string>> Netlink::links() {
  struct if_nameindex* list = ::if_nameindex();
  if (list == nullptr) return system_failure(errno, "list links");
  std::vector<std::string> names;
  for (const auto* entry = list; entry->if_index != 0; ++entry) names.emplace_back(entry->if_name);
  ::if_freenameindex(list);
  return names;
}

}  // namespace nodus::linux
