#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "services/executor/adapters/linux/oci_spec.hpp"

namespace nodus::executor {
namespace {

boost::json::value spec(bool gvisor) {
  return boost::json::parse(
      bundle_json({.hostname = "box",
                   .rootfs = "/s/rootfs",
                   .helper = "/h",
                   .run = "/s/run",
                   .netns = "/s/netns",
                   .cgroup = "/nodus-n1/x",
                   .shape = {.cpu_milli = 250, .memory_bytes = 1 << 30, .disk_bytes = 1 << 30},
                   .gvisor = gvisor}));
}

TEST(OciSpec, LimitsAreTheShape) {
  const auto resources = spec(true).at("linux").at("resources");
  EXPECT_EQ(resources.at("cpu").at("quota"), 200'000)
      << "of the runtime's start; limit_cpu comes before commands";
  EXPECT_EQ(resources.at("cpu").at("period"), 100'000);
  EXPECT_EQ(resources.at("memory").at("limit"), 1 << 30);
  EXPECT_EQ(resources.at("memory").at("swap"), 1 << 30) << "memory and swap together";
  EXPECT_EQ(resources.at("pids").at("limit"), 4096);
  EXPECT_EQ(spec(false).at("linux").at("resources").at("pids").at("limit"), 256);
}

TEST(OciSpec, TheHelperIsToldTheLimitOfProcessesUnderGvisor) {
  const auto gvisor = spec(true).at("process").at("args").as_array();
  ASSERT_EQ(gvisor.size(), 3u);
  EXPECT_EQ(gvisor[2], "256");
  EXPECT_EQ(spec(false).at("process").at("args").as_array().size(), 2u);  // there the cgroup counts
}

TEST(OciSpec, NothingIsGained) {
  for (const bool gvisor : {true, false}) {
    const auto process = spec(gvisor).at("process");
    EXPECT_TRUE(process.at("noNewPrivileges").as_bool());
    EXPECT_EQ(process.at("capabilities").at("bounding"),
              boost::json::parse(R"(["CAP_SETUID","CAP_SETGID","CAP_KILL","CAP_SETPCAP"])"));
    EXPECT_FALSE(process.at("capabilities").as_object().contains("ambient"));
    for (const auto& mount : spec(gvisor).at("mounts").as_array()) {
      const auto options = boost::json::serialize(mount.at("options"));
      EXPECT_NE(options.find("nosuid"), std::string::npos) << options;
    }
  }
}

TEST(OciSpec, RuncHasASeccompFilterThatComparesLowBits) {
  EXPECT_FALSE(spec(true).at("linux").as_object().contains("seccomp"));
  const auto seccomp = spec(false).at("linux").at("seccomp");
  int sockets = 0;
  for (const auto& rule : seccomp.at("syscalls").as_array())
    if (rule.at("names").at(0) == "socket") {
      ++sockets;
      EXPECT_EQ(rule.at("args").at(0).at("op"), "SCMP_CMP_MASKED_EQ");
      EXPECT_EQ(rule.at("args").at(0).at("value"), 0xffffffffLL);
    }
  EXPECT_GE(sockets, 5);
}

}  // namespace
}  // namespace nodus::executor
