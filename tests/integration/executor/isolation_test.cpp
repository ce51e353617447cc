// The boundary of a Sandbox on the real runtimes. Each probe that must fail has a control that shows it can
// see.
#include <gtest/gtest.h>
#include <unistd.h>

#include "libs/linux/netlink.hpp"
#include "tests/integration/executor/sandbox.hpp"

namespace nodus::executor {
namespace {

using testing::Answer;
using testing::Node;
using testing::on_machine;

class Isolation : public ::testing::TestWithParam<const char*> {
 protected:
  Answer exec(const std::string& line) { return node_.exec(order_.key, line); }
  bool gvisor() const { return std::string(GetParam()) == "runsc"; }

  Node node_{GetParam()};
  Order order_ = node_.order("box");
};

std::string field(const std::string& status, const std::string& name) {
  const size_t at = status.find(name + ":");
  if (at == std::string::npos) return "(none)";
  const size_t from = status.find_first_not_of(" \t", at + name.size() + 1);
  return status.substr(from, status.find('\n', from) - from);
}

TEST_P(Isolation, CommandsAreUnprivileged) {
  node_.start(order_);
  const auto status = exec("cat /proc/self/status");
  ASSERT_EQ(status.exit_code, 0) << status.out;
  EXPECT_EQ(field(status.out, "Uid").substr(0, 4), "1000");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    if (field(status.out, set) != "(none)") {
      EXPECT_EQ(field(status.out, set).find_first_not_of('0'), std::string::npos)
          << set << " " << field(status.out, set);
    }
  if (!gvisor()) {
    EXPECT_EQ(field(status.out, "NoNewPrivs"), "1");
    EXPECT_EQ(field(status.out, "Seccomp"), "2");
  }
  EXPECT_NE(exec("kill -9 1").exit_code, 0);
  EXPECT_NE(exec("echo x > /.nodus/helper").exit_code, 0);
  EXPECT_NE(exec("ls /.run").exit_code, 0);
  EXPECT_NE(exec("mount -t tmpfs tmpfs /workspace").exit_code, 0);
  if (!gvisor()) {  // gVisor's own namespaces are not the machine's
    EXPECT_NE(exec("unshare -U true").exit_code, 0);
  }
  EXPECT_EQ(exec("echo hello > /workspace/a && cat /workspace/a").out, "hello\n");
  EXPECT_EQ(exec("ls /proc/self/fd").out.find('4'), std::string::npos);  // 3 is ls's own
}

TEST_P(Isolation, DenyLetsNothingOut) {
  const auto record = node_.start(order_);
  EXPECT_EQ(exec("grep -c 00000000.*0003 /proc/net/route").out, "0\n") << "a default route";
  EXPECT_EQ(exec("cat /proc/net/if_inet6 2>/dev/null | wc -l").out, "0\n");
  const auto pool = *AddressPool::parse("10.217.0.0/20");
  const auto machine = linux::format_ipv4(pool.host(record.network_index));
  const auto link = node_.host().network().link_name(record.network_index);
  on_machine(NODUS_PROBE_INIT " serve " + machine + " 8099 >/dev/null 2>&1 & true");
  const std::string probe = "#get " + machine + " 8099";

  EXPECT_NE(exec(probe).exit_code, 0);
  EXPECT_EQ(on_machine("ip -6 addr show dev " + link).out, "");
  auto traffic = node_.host().network().firewall().traffic();
  ASSERT_TRUE(traffic) << traffic.error().message;
  EXPECT_GE((*traffic)[record.network_index].denied_packets, 1);
  EXPECT_EQ((*traffic)[record.network_index].out_bytes, 0);

  // The control: without the rules the same probe reaches the machine.
  ASSERT_TRUE(node_.host().network().firewall().remove_all());
  Answer reached;
  for (int i = 0; i < 20 && reached.exit_code != 0; ++i) reached = exec(probe);
  EXPECT_EQ(reached.out, "hello\n");
}

// A network behind this machine with a "public" and a private host, both the same web server.
class Outside {
 public:
  Outside() {
    const std::string in = "ip -n " + name_;
    const auto made = on_machine(
        "ip netns add " + name_ + " && ip link add " + name_ + " type veth peer name eth0 netns " + name_ +
        " && ip addr add 198.51.100.1/30 dev " + name_ + " && ip link set " + name_ + " up && " + in +
        " addr add 198.51.100.2/30 dev eth0 && " + in + " addr add 203.0.113.7/32 dev eth0 && " + in +
        " addr add 10.99.0.7/32 dev eth0 && " + in + " link set eth0 up && " + in +
        " link set lo up && ip route add 203.0.113.7 via 198.51.100.2 && ip route add 10.99.0.7 via "
        "198.51.100.2"
        " && echo 1 > /proc/sys/net/ipv4/conf/" +
        name_ + "/forwarding");
    EXPECT_EQ(made.exit_code, 0) << made.out;
    on_machine("ip netns exec " + name_ + " " NODUS_PROBE_INIT " serve 0.0.0.0 80 >/dev/null 2>&1 & true");
    Answer answer;
    for (int i = 0; i < 200 && answer.exit_code != 0; ++i)
      answer = on_machine(NODUS_PROBE_INIT " get 203.0.113.7 80");
    EXPECT_EQ(answer.out, "hello\n") << "the network outside does not work";
  }
  ~Outside() {
    on_machine("ip netns pids " + name_ + " | xargs -r kill; ip link del " + name_ + "; ip netns del " +
               name_);
  }

 private:
  const std::string name_ = "np" + std::to_string(::getpid() % 100000);
};

TEST_P(Isolation, OpenReachesPublicAddressesOnly) {
  order_.open_egress = true;
  const auto record = node_.start(order_);
  EXPECT_EQ(exec("cat /etc/resolv.conf").out, "nameserver 192.0.2.53\n");
  EXPECT_EQ(exec("cat /proc/net/if_inet6 2>/dev/null | wc -l").out, "0\n");
  const Outside outside;
  EXPECT_EQ(exec("#get 203.0.113.7 80").out, "hello\n");
  EXPECT_EQ(on_machine(NODUS_PROBE_INIT " get 10.99.0.7 80").out, "hello\n") << "the control sees nothing";
  const auto pool = *AddressPool::parse("10.217.0.0/20");
  for (const auto& address :
       {std::string("10.99.0.7"), std::string("169.254.169.254"), std::string("168.63.129.16"),
        std::string("198.18.0.1"), linux::format_ipv4(pool.host(record.network_index))})
    EXPECT_NE(exec("#get " + address + " 80").exit_code, 0) << address;
  auto traffic = node_.host().network().firewall().traffic();
  ASSERT_TRUE(traffic) << traffic.error().message;
  EXPECT_GT((*traffic)[record.network_index].in_bytes, 0);
  EXPECT_GT((*traffic)[record.network_index].out_bytes, 0);
  EXPECT_GE((*traffic)[record.network_index].denied_packets, 3);
}

// As when a removal was cut off and the index is used again.
TEST_P(Isolation, DenyInheritsNothingOfAnOpenLink) {
  const auto record = node_.start(order_);
  auto& network = node_.host().network();
  const auto pool = *AddressPool::parse("10.217.0.0/20");
  Link link{.index = record.network_index,
            .name = network.link_name(record.network_index),
            .mac = "02:6e:64:00:00:02",
            .address = pool.inner(record.network_index),
            .open = true,
            .uplink = "np-uplink"};
  const auto accepting = [&] {
    return on_machine("nft list ruleset | sed -n '/nodus_" + node_.host().layout().label +
                      "/,$p' | grep -cE 'ip saddr.*accept'")
        .out;
  };
  const auto before = accepting();
  ASSERT_TRUE(network.firewall().add(link));
  EXPECT_NE(accepting(), before) << "the control sees nothing";
  link.open = false;
  const auto added = network.firewall().add(link);
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_EQ(accepting(), before);
  EXPECT_EQ(
      on_machine("nft list set inet nodus_" + node_.host().layout().label + " uplinks | grep -c np-uplink")
          .out,
      "1\n");
}

TEST_P(Isolation, TheDiskEndsAtItsQuota) {
  node_.start(order_);
  const auto full = exec("dd if=/dev/zero of=/workspace/big bs=1M count=200 2>&1");
  EXPECT_NE(full.exit_code, 0);
  EXPECT_NE(full.out.find("No space left"), std::string::npos) << full.out;
  EXPECT_EQ(exec("rm /workspace/big && echo ok > /workspace/small && cat /workspace/small").out, "ok\n");
}

TEST_P(Isolation, ProcessesAreLimited) {
  if (gvisor())
    GTEST_SKIP() << "the helper limits its commands, and this runs beside it: see "
                    "HelperTest.StaysAnswerableUnderAForkBomb";
  node_.start(order_);
  const auto bomb = exec(
      "i=0; while [ $i -lt 400 ]; do sleep 30 & i=$((i+1)); done 2>&1 | head -1; pgrep sleep | wc -l; pkill "
      "sleep");
  EXPECT_NE(bomb.out.find("fork"), std::string::npos) << bomb.out;
  EXPECT_EQ(exec("echo alive").out, "alive\n");
}

TEST_P(Isolation, MemoryIsLimited) {
  order_.shape.memory_bytes = 128LL << 20;
  node_.start(order_);
  EXPECT_EQ(exec("echo alive").out, "alive\n");
  const auto groups =
      on_machine("cat /sys/fs/cgroup/memory" + node_.host().layout().cgroup_parent() + "/" +
                 order_.key.text() + "/memory.limit_in_bytes /sys/fs/cgroup" +
                 node_.host().layout().cgroup_parent() + "/" + order_.key.text() + "/memory.max 2>/dev/null");
  EXPECT_EQ(groups.out, std::to_string(order_.shape.memory_bytes) + "\n");
}

TEST_P(Isolation, CpuIsLimitedBeforeCommands) {
  order_.shape.cpu_milli = 250;
  const auto record = node_.start(order_);
  ASSERT_TRUE(node_.host().limit_cpu(record));
  const auto group = node_.host().layout().cgroup_parent() + "/" + order_.key.text();
  const auto quota =
      on_machine("cat /sys/fs/cgroup/cpu" + group + "/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 " +
                 "/sys/fs/cgroup" + group + "/cpu.max");
  EXPECT_EQ(quota.out, "25000\n");
}

TEST_P(Isolation, ATornDownSlotLeavesNothing) {
  const auto record = node_.start(order_);
  ASSERT_EQ(exec("echo alive").out, "alive\n");
  EXPECT_TRUE(node_.host().alive(order_.key));
  auto killed = node_.host().kill(order_.key);
  ASSERT_TRUE(killed) << killed.error().message;
  EXPECT_FALSE(node_.host().alive(order_.key));
  auto gone = node_.host().teardown(record);
  ASSERT_TRUE(gone) << gone.error().message;
  ASSERT_TRUE(node_.host().teardown(record)) << "a repeat is fine";
  const auto label = node_.host().layout().label;
  EXPECT_EQ(on_machine("ip link | grep " + label).out, "");
  EXPECT_EQ(on_machine("grep " + order_.key.text() + " /proc/self/mountinfo").out, "");
  EXPECT_EQ(on_machine("losetup -l | grep " + node_.state().native()).out, "");
  EXPECT_EQ(on_machine("find /sys/fs/cgroup -name '" + order_.key.text() + "'").out, "");
  ASSERT_TRUE(node_.host().purge());
  EXPECT_EQ(on_machine("nft list tables | grep " + label).out, "");
  EXPECT_EQ(on_machine("find /sys/fs/cgroup -name 'nodus-" + label + "'").out, "");
  EXPECT_EQ(on_machine("grep " + node_.state().native() + " /proc/self/mountinfo").out, "");
}

TEST_P(Isolation, TheNodeChecksItself) {
  auto checked = node_.host().self_check();
  EXPECT_TRUE(checked) << checked.error().message;
}

INSTANTIATE_TEST_SUITE_P(Runtimes, Isolation, ::testing::Values("runc", "runsc"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace nodus::executor
