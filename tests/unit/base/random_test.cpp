#include "libs/base/random.hpp"

#include <gtest/gtest.h>

#include <set>

namespace nodus {
namespace {

TEST(Random, UuidsAreVersionFourAndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto uuid = random_uuid();
    ASSERT_EQ(uuid.size(), 36u);
    EXPECT_EQ(uuid[14], '4');
    EXPECT_TRUE(seen.insert(uuid).second);
  }
}

TEST(Random, BelowStaysBelowAndReachesAll) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 500; ++i) seen.insert(random_below(5));
  EXPECT_EQ(seen, (std::set<uint64_t>{0, 1, 2, 3, 4}));
}

TEST(Hash, KnownVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hmac_sha256_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");  // RFC 4231, case 2
}

TEST(Base64, RoundTripsAndIsStrict) {
  for (const std::string bytes : {"", "a", "ab", "abc", "abcd"}) {
    std::string back;
    ASSERT_TRUE(from_base64(to_base64(bytes), back));
    EXPECT_EQ(back, bytes);
  }
  std::string out;
  EXPECT_FALSE(from_base64("abc", out));
  EXPECT_FALSE(from_base64("a!==", out));
}

}  // namespace
}  // namespace nodus
