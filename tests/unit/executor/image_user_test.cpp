#include <gtest/gtest.h>

#include "services/executor/adapters/linux/image_store.hpp"
#include "services/executor/adapters/linux/network.hpp"

namespace nodus::executor {
namespace {

constexpr const char* kPasswd =
    "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1001::/workspace:/bin/sh\nzero:x:0:0::/:\n";
constexpr const char* kGroup = "root:x:0:\nstaff:x:50:\n";

TEST(ImageUser, IsANumberOrANameOfTheImage) {
  const std::pair<uint32_t, uint32_t> agent{1000, 1001};
  EXPECT_EQ(*resolve_user("agent", kPasswd, kGroup), agent);
  EXPECT_EQ(*resolve_user("1000:1001", kPasswd, kGroup), agent);
  EXPECT_EQ(*resolve_user("agent:staff", kPasswd, kGroup), (std::pair<uint32_t, uint32_t>{1000, 50}));
  EXPECT_EQ(*resolve_user("2000", kPasswd, kGroup), (std::pair<uint32_t, uint32_t>{2000, 2000}));
  EXPECT_EQ(*resolve_user("2000:root", kPasswd, kGroup), (std::pair<uint32_t, uint32_t>{2000, 2000}));
}

TEST(ImageUser, IsNeverRootAndNeverAGuess) {
  for (const char* user :
       {"", "root", "0", "0:1000", "zero", "nobodyhere", "agent:nogroup", ":50", "-1", "4294967295"})
    EXPECT_FALSE(resolve_user(user, kPasswd, kGroup)) << user;
}

TEST(AddressPool, GivesEachSlotAPairOfItsOwn) {
  const auto pool = AddressPool::parse("10.201.0.0/16");
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->pairs(), 16384);
  EXPECT_EQ(linux::format_ipv4(pool->host(1)), "10.201.0.5");
  EXPECT_EQ(linux::format_ipv4(pool->inner(16383)), "10.201.255.254");
  for (const char* bad : {"", "10.0.0.0", "10.0.0.1/16", "10.0.0.0/8", "10.0.0.0/30", "x/16", "10.0.0.0/x"})
    EXPECT_FALSE(AddressPool::parse(bad)) << bad;
}

}  // namespace
}  // namespace nodus::executor
