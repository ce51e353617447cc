#include "services/executor/adapters/linux/firewall.hpp"

#include <fmt/format.h>

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>

namespace nodus::executor {

// Never reachable, whatever the policy: this network, private (RFC 1918), carrier-grade NAT, loopback,
// link-local with the cloud's metadata, protocol assignments, benchmarks, multicast, reserved, broadcast; and
// the one public address at which a cloud answers its own machines.
static constexpr const char* kNeverPublic =
    "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, "
    "168.63.129.16, 192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3";

Firewall::Firewall(std::string label, std::string pool) : label_(std::move(label)), pool_(std::move(pool)) {}

std::string Firewall::base_rules() const {
  return fmt::format(R"(
add table netdev nodus_{label}
delete table netdev nodus_{label}
add table netdev nodus_{label}
add table inet nodus_{label}
delete table inet nodus_{label}
table inet nodus_{label} {{
  set never_public {{ type ipv4_addr; flags interval; elements = {{ {never} }} }}
  set uplinks {{ type ifname; }}
  map to_slot {{ type ifname : verdict; }}
  map from_slot {{ type ifname : verdict; }}
  chain input {{ type filter hook input priority -10; policy accept; iifname "{label}-*" counter drop; }}
  chain forward {{
    type filter hook forward priority -10; policy accept;
    iifname "{label}-*" oifname "{label}-*" counter drop
    oifname vmap @to_slot
    oifname "{label}-*" counter drop
    iifname vmap @from_slot
    iifname "{label}-*" counter drop
    iifname @uplinks counter drop
  }}
  chain postrouting {{
    type nat hook postrouting priority 100; policy accept;
    ip saddr {pool} oifname != "{label}-*" masquerade
  }}
}}
)",
                     fmt::arg("label", label_), fmt::arg("never", kNeverPublic), fmt::arg("pool", pool_));
}

// Deny: all is dropped and counted at the link. Open: own addresses pass on to the forward chain. The chains
// are emptied first: what was left over of an earlier link of this index is not lent to this one.
std::string Firewall::link_rules(const Link& link) const {
  const auto address = linux::format_ipv4(link.address);
  std::string rules =
      fmt::format(R"(
add chain netdev nodus_{label} link_{index} {{ type filter hook ingress device "{name}" priority -500; policy drop; }}
flush chain netdev nodus_{label} link_{index}
add chain inet nodus_{label} to_{index}
flush chain inet nodus_{label} to_{index}
add chain inet nodus_{label} from_{index}
flush chain inet nodus_{label} from_{index}
table netdev nodus_{label} {{
  counter denied_{index} {{ }}
  counter out_{index} {{ }}
  chain link_{index} {{
    type filter hook ingress device "{name}" priority -500; policy drop;
)",
                  fmt::arg("label", label_), fmt::arg("index", link.index), fmt::arg("name", link.name));
  if (link.open)
    rules += fmt::format(
        "    ether saddr {mac} arp saddr ether {mac} arp saddr ip {address} accept\n"
        "    ether saddr {mac} ether type ip ip saddr {address} counter name out_{index} accept\n",
        fmt::arg("mac", link.mac), fmt::arg("address", address), fmt::arg("index", link.index));
  rules += fmt::format("    counter name denied_{} drop\n  }}\n}}\n", link.index);
  rules += fmt::format(
      R"(
table inet nodus_{label} {{
  counter in_{index} {{ }}
  counter refused_{index} {{ }}
  chain to_{index} {{ {accept} counter name refused_{index} drop; }}
  chain from_{index} {{ ip daddr @never_public counter name refused_{index} drop; {pass} }}
}}
add element inet nodus_{label} to_slot {{ "{name}" : jump to_{index} }}
add element inet nodus_{label} from_slot {{ "{name}" : jump from_{index} }}
)",
      fmt::arg("label", label_), fmt::arg("index", link.index), fmt::arg("name", link.name),
      fmt::arg("accept", link.open ? fmt::format("ct state established,related counter name "
                                                 "in_{} accept;",
                                                 link.index)
                                   : ""),
      fmt::arg("pass",
               link.open ? fmt::format("meta nfproto ipv4 ip saddr {} accept; drop;", address) : "drop;"));
  if (link.open && !link.uplink.empty())
    rules += fmt::format("add element inet nodus_{} uplinks {{ \"{}\" }}\n", label_, link.uplink);
  return rules;
}

Result<void> Firewall::rebuild(const std::vector<Link>& links) {
  std::string rules = base_rules();
  for (const auto& link : links) rules += link_rules(link);
  return nft_.apply(rules);
}

Result<void> Firewall::add(const Link& link) {
  return nft_.apply(link_rules(link));
}

// After the link is gone, never before. What went with the link, or never was, is fine; hence three
// transactions, whose failures say no more than that.
void Firewall::remove(int index, const std::string& name) {
  (void)nft_.apply(fmt::format("delete chain netdev nodus_{} link_{}", label_, index));
  (void)nft_.apply(fmt::format(
      "delete counter netdev nodus_{0} denied_{1}\ndelete counter netdev nodus_{0} out_{1}", label_, index));
  (void)nft_.apply(
      fmt::format("delete element inet nodus_{0} to_slot {{ \"{1}\" }}\n"
                  "delete element inet nodus_{0} from_slot {{ \"{1}\" }}\n"
                  "delete chain inet nodus_{0} to_{2}\ndelete chain inet nodus_{0} from_{2}\n"
                  "delete counter inet nodus_{0} in_{2}\ndelete counter inet nodus_{0} refused_{2}",
                  label_, name, index));
}

Result<void> Firewall::remove_all() {
  return nft_.apply(
      fmt::format("add table netdev nodus_{0}\ndelete table netdev nodus_{0}\n"
                  "add table inet nodus_{0}\ndelete table inet nodus_{0}",
                  label_));
}

static void collect(const std::string& text, std::map<int, Traffic>& traffic) {
  boost::system::error_code error;
  const auto value = boost::json::parse(text, error);
  if (error) return;
  for (const auto& entry : value.at("nftables").as_array()) {
    const auto* counter = entry.as_object().if_contains("counter");
    if (counter == nullptr) continue;
    const std::string name(counter->at("name").as_string());
    const size_t split = name.find('_');
    int index = 0;
    if (split == std::string::npos ||
        std::from_chars(name.data() + split + 1, name.data() + name.size(), index).ec != std::errc())
      continue;
    const auto bytes = counter->at("bytes").to_number<int64_t>();
    if (name.starts_with("out_")) traffic[index].out_bytes += bytes;
    if (name.starts_with("in_")) traffic[index].in_bytes += bytes;
    if (name.starts_with("denied_") || name.starts_with("refused_"))
      traffic[index].denied_packets += counter->at("packets").to_number<int64_t>();
  }
}

Result<std::map<int, Traffic>> Firewall::traffic() {
  std::map<int, Traffic> traffic;
  for (const char* family : {"netdev", "inet"}) {
    auto text = nft_.query(fmt::format("list counters table {} nodus_{}", family, label_));
    if (!text) return std::unexpected(text.error());
    try {
      collect(*text, traffic);
    } catch (const std::exception& fault) {  // of Boost.JSON
      return fail(Code::kInternal, "FirewallFailed",
                  std::string("nft's counters cannot be read: ") + fault.what());
    }
  }
  return traffic;
}

}  // namespace nodus::executor
