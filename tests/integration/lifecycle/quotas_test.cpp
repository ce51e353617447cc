// Quotas: exact numbers, and no race exceeds them.
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "services/lifecycle/app/works.hpp"
#include "tests/integration/lifecycle/tenant_world.hpp"

namespace nodus::lifecycle {
namespace {

class QuotasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* org : {"acme", "rival"}) world_.make_organization(org);
    world_.serve();
  }
  void limit(const QuotaRow& quotas) {
    ASSERT_TRUE(world_.tenants.set_quotas(OrgId("acme"), quotas).has_value());
  }
  const std::string& user() const { return world_.secret_of("acme/developer"); }
  // Creates `count` Sandboxes at once, through the use case; how many there came to be.
  int create_at_once(int count) {
    std::atomic<int> made = 0;
    constexpr int kThreads = 16;
    std::latch ready(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        ready.arrive_and_wait();
        for (int i = t; i < count; i += kThreads)
          made += world_.create(user(), "s" + std::to_string(i)).status == 201;
      });
    for (auto& thread : threads) thread.join();
    return made;
  }
  void lapse(const std::string& name) {
    const auto sandbox = *world_.catalog.sandbox(ProjectId("acme/web"), name);
    ASSERT_TRUE(world_.batcher
                    .run(change_sandbox(sandbox.uid, RecordLapse{sandbox.start, "Stopped", StopReason::kUser},
                                        {world_.clock.now(), std::nullopt}))
                    .has_value());
  }

  TenantWorld world_;
};

TEST_F(QuotasTest, AThousandCreatesAtOnceMakeAsManyAsTheQuota) {
  limit({.sandboxes = 37});
  EXPECT_EQ(create_at_once(1'000), 37);
  EXPECT_EQ(world_.number("SELECT count(*) FROM sandboxes WHERE org = 'acme'"), 37);
  EXPECT_EQ(world_.tenants.organization(OrgId("acme"))->usage.sandboxes, 37);
  ASSERT_GT(world_.keeper.fold_usage().value_or(-1), 0);
  EXPECT_EQ(world_.tenants.organization(OrgId("acme"))->usage.sandboxes, 37);
  const auto refused = world_.create(user(), "more");
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(reason_of(refused), "QuotaExceeded");
  EXPECT_TRUE(string_at(refused, "/message")
                  .starts_with("exceeded quota: sandboxes: requested 1, used 37, limited to 37."))
      << refused.body;
  EXPECT_EQ(string_at(refused, "/details/limit"), "37");
  EXPECT_EQ(world_.create(world_.secret_of("rival/developer"), "theirs").status, 201);
  EXPECT_EQ(world_.create(user(), "s0").status / 100,
            2 + (world_.catalog.sandbox(ProjectId("acme/web"), "s0") ? 0 : 2))
      << "what exists is returned as ever";
}

TEST_F(QuotasTest, VcpuOfWhatRunsIsBoundedAndGivenBackByAStop) {
  limit({.cpu_milli = 5'000});  // each asks for 1
  EXPECT_EQ(create_at_once(64), 5);
  std::string running;
  for (int i = 0; running.empty(); ++i)
    if (world_.catalog.sandbox(ProjectId("acme/web"), "s" + std::to_string(i)))
      running = "s" + std::to_string(i);
  const auto refused = world_.create(user(), "more");
  EXPECT_EQ(refused.status, 403);
  EXPECT_TRUE(
      string_at(refused, "/message").starts_with("exceeded quota: cpu: requested 1, used 5, limited to 5."))
      << refused.body;
  lapse(running);
  EXPECT_EQ(world_.tenants.organization(OrgId("acme"))->usage.cpu_milli, 4'000);
  EXPECT_EQ(world_.create(user(), "more").status, 201);
  // A wake is a start like any other.
  const auto patched =
      world_.call(user(), "PATCH", "/namespaces/web/sandboxes/" + running, R"({"spec":{"state":"Running"}})");
  EXPECT_EQ(reason_of(patched), "QuotaExceeded") << patched.body;
}

TEST_F(QuotasTest, CreatesOfAnyMinuteAreBounded) {
  limit({.creates_per_minute = 10});
  EXPECT_EQ(create_at_once(40), 10);
  world_.clock.advance(Seconds(30));
  const auto refused = world_.create(user(), "more");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(reason_of(refused), "TooManyRequests");
  EXPECT_EQ(refused.headers.get("Retry-After"), "30");
  world_.clock.advance(Seconds(29));
  EXPECT_EQ(world_.create(user(), "more").status, 429);
  world_.clock.advance(Seconds(1));
  EXPECT_EQ(world_.create(user(), "more").status, 201);
}

TEST_F(QuotasTest, StoredBytesRefuseTheNextCreateAndStart) {
  limit({.stored_bytes = 1'000});
  ASSERT_EQ(world_.create(user(), "one").status, 201);
  const auto one = *world_.catalog.sandbox(ProjectId("acme/web"), "one");
  const auto change = [&](SandboxCommand command) {
    ASSERT_TRUE(
        world_.batcher.run(change_sandbox(one.uid, std::move(command), {world_.clock.now(), std::nullopt}))
            .has_value());
  };
  change(RecordSlot{{1, 1, "machine-1", "127.0.0.1:1", world_.clock.now()}});
  change(RecordRunning{{1, "runsc", world_.clock.now()}});
  change(RequestStop{StopReason::kUser, 1});
  change(RecordRelease{{.start = 1,
                        .stop_reason = StopReason::kUser,
                        .failure = "",
                        .message = "",
                        .restore_point = RestorePoint{"o", "s", 1'000, world_.clock.now()},
                        .at = world_.clock.now()}});
  EXPECT_EQ(world_.tenants.organization(OrgId("acme"))->usage.stored_bytes, 1'000);
  const auto refused = world_.create(user(), "two");
  EXPECT_EQ(reason_of(refused), "QuotaExceeded") << refused.body;
  EXPECT_EQ(string_at(refused, "/details/quota"), "storedBytes");
  EXPECT_EQ(world_.call(user(), "DELETE", "/namespaces/web/sandboxes/one").status, 200);
  EXPECT_EQ(world_.create(user(), "two").status, 201);
}

TEST_F(QuotasTest, UseIsWhatThereIsAfterAnything) {
  for (int i = 0; i < 6; ++i) ASSERT_EQ(world_.create(user(), "s" + std::to_string(i)).status, 201);
  for (const char* name : {"s0", "s1"}) lapse(name);
  world_.call(user(), "DELETE", "/namespaces/web/sandboxes/s0");
  world_.call(user(), "DELETE", "/namespaces/web/sandboxes/s2");
  lapse("s2");
  ASSERT_TRUE(world_.keeper.fold_usage().has_value());
  const auto usage = world_.tenants.organization(OrgId("acme"))->usage;
  EXPECT_EQ(usage, (Share{4, 3'000, 0}));
  EXPECT_EQ(world_.number("SELECT count(*) FROM usage_changes"), 0);
}

}  // namespace
}  // namespace nodus::lifecycle
