#include "libs/base/names.hpp"

#include <gtest/gtest.h>

namespace nodus {
namespace {

const std::string k63(63, 'a'), k64(64, 'a');

TEST(Names, DnsLabels) {
  for (const auto& good : {std::string("a"), std::string("0-a"), k63})
    EXPECT_TRUE(is_dns_label(good)) << good;
  for (const std::string bad : {"", "-a", "a-", "A", "a.b", "a_b", "\xc3\xa9"})
    EXPECT_FALSE(is_dns_label(bad)) << bad;
  EXPECT_FALSE(is_dns_label(k64));
}

TEST(Names, KeysAndValuesOfLabels) {
  for (const auto& good : {std::string("a"), std::string("A_b-c.9"), "a.b/" + k63, std::string("a-1.b/c")})
    EXPECT_EQ(annotation_fault(good), "") << good;
  for (const auto& bad :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a/b/c"), "a.b/" + k64,
        std::string("A.b/c"), std::string("a..b/c"), std::string("_a"), std::string("a b")})
    EXPECT_NE(annotation_fault(bad), "") << bad;
  const std::string longest = k63 + "." + k63 + "." + k63 + "." + std::string(61, 'a');
  EXPECT_TRUE(is_metadata_key(longest + "/a"));
  EXPECT_FALSE(is_metadata_key(longest + "a/a"));
  EXPECT_EQ(label_fault("a", ""), "");
  EXPECT_EQ(label_fault("a", k63), "");
  for (const auto& bad : {k64, std::string("-a"), std::string("a b"), std::string("a/b")})
    EXPECT_NE(label_fault("a", bad), "") << bad;
  EXPECT_NE(label_fault("/", "a"), "");
}

}  // namespace
}  // namespace nodus
