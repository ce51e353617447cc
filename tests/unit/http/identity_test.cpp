#include "libs/http/identity.hpp"

#include <gtest/gtest.h>

#include "libs/base/random.hpp"

namespace nodus::http {
namespace {

const Identity kWho{OrgId("acme"), ProjectId("dev"), "k1", "developer"};

TEST(Identity, IsBelievedForThirtySeconds) {
  const Instant now = from_micros(1'700'000'000'000'000);
  const std::string header = sign_identity(kWho, "secret", now);
  const auto who = verify_identity(header, "secret", now + Seconds(30));
  ASSERT_TRUE(who);
  EXPECT_EQ(who->org, kWho.org);
  EXPECT_EQ(who->project, kWho.project);
  EXPECT_EQ(who->key_id, "k1");
  EXPECT_EQ(who->role, "developer");
  EXPECT_FALSE(verify_identity(header, "secret", now + Seconds(31)));
  EXPECT_FALSE(verify_identity(header, "secret", now - Seconds(6)));
  EXPECT_TRUE(verify_identity(header, "secret", now - Seconds(4)));
}

TEST(Identity, EveryChangedByteIsRefused) {
  const Instant now = from_micros(1'700'000'000'000'000);
  const std::string header = sign_identity(kWho, "secret", now);
  EXPECT_FALSE(verify_identity(header, "other", now));
  EXPECT_FALSE(verify_identity(header, "", now));
  EXPECT_FALSE(verify_identity("", "secret", now));
  for (size_t at = 0; at < header.size(); ++at) {
    std::string changed = header;
    changed[at] = changed[at] == 'a' ? 'b' : 'a';
    EXPECT_FALSE(verify_identity(changed, "secret", now)) << at;
  }
  // Signed, but not what an identity is.
  for (const char* claims :
       {"{}", "[]", "x", R"({"org":"a","project":"b","role":"c"})", R"({"org":1,"at":1})"}) {
    const std::string payload = to_base64(claims);
    EXPECT_FALSE(verify_identity(payload + "." + hmac_sha256_hex("secret", payload), "secret", now))
        << claims;
  }
}

TEST(Identity, NodeTokensDifferByMachineAndSecret) {
  EXPECT_EQ(node_token("s", MachineId("m")), "m." + hmac_sha256_hex("s", "node/m"));
  EXPECT_NE(node_token("s", MachineId("m")), node_token("s", MachineId("n")));
  EXPECT_NE(node_token("s", MachineId("m")), node_token("t", MachineId("m")));
  const std::string good = "Bearer " + node_token("s", MachineId("m.1"));
  EXPECT_EQ(verify_node_token(good, "s"), MachineId("m.1"));
  for (const std::string& bad :
       {std::string(), std::string("Bearer "), std::string("Bearer ."), good.substr(7), good + "0",
        "Bearer n" + good.substr(8), std::string(1000, 'x')})
    EXPECT_FALSE(verify_node_token(bad, "s").has_value()) << bad;
  EXPECT_FALSE(verify_node_token(good, "t").has_value());
}

}  // namespace
}  // namespace nodus::http
