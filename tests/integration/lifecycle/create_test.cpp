// Create by name, and wakes that race: on a real PostgreSQL.
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "libs/base/random.hpp"
#include "tests/integration/lifecycle/lifecycle_fixture.hpp"

namespace nodus::lifecycle {
namespace {

constexpr int kCallers = 1000;

// Everybody begins at once.
void at_once(int callers, const std::function<void(int)>& call) {
  std::latch start(callers);
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      call(i);
    });
  for (auto& thread : threads) thread.join();
}

// As a client does with a 503: on a busy machine a thousand callers may have to wait for a connection.
template <class Call>
auto patiently(Call call) -> decltype(call()) {
  const SystemClock clock;
  const Micros end = clock.boot() + Seconds(100);
  for (;;) {
    auto result = call();
    if (result || !retryable(result.error().code) || clock.boot() > end) return result;
    std::this_thread::yield();
  }
}

class Create : public Lifecycle {
 protected:
  Sandbox release(const Sandbox& sandbox, StopReason reason, std::string failure = "") {
    return change(sandbox, RecordRelease{{.start = sandbox.start,
                                          .stop_reason = reason,
                                          .failure = std::move(failure),
                                          .message = "",
                                          .restore_point = {},
                                          .at = clock_.now()}});
  }
  Sandbox make_stopped(const std::string& name) {
    return release(change(make_running(name), RequestStop{}), StopReason::kUser);
  }
  // As its caller would.
  Result<Sandbox> wake(const Sandbox& sandbox, Trigger kind) {
    if (kind == Trigger::kCreate) {
      auto created = sandboxes_.create(wanted(sandbox.name));
      if (!created) return std::unexpected(created.error());
      return created->sandbox;
    }
    if (kind == Trigger::kCommand) {
      auto admission = sandboxes_.admit(sandbox, {.command = {"true"}});
      if (!admission) return std::unexpected(admission.error());
      return admission->sandbox;
    }
    return sandboxes_.trigger(sandbox, kind);
  }
  int64_t events(const Sandbox& sandbox, const std::string& type) {
    int64_t count = 0;
    const auto page = log_->read_stream(sandbox_stream(sandbox.uid), 0, 10'000);
    for (const auto& event : *page) count += event.type == "nodus.lifecycle.v1." + type ? 1 : 0;
    return count;
  }
  std::string cell(const std::string& sql) {
    return *pool_.with_tx(
        [&](pg::Tx& tx) -> Result<std::string> { return tx.exec1(sql)[0].as<std::string>(); });
  }
};

TEST_F(Create, AThousandAtOnceMakeOne) {
  std::mutex mutex;
  std::set<std::string> uids;
  int created = 0;
  at_once(kCallers, [&](int) {
    auto result = patiently([&] { return sandboxes_.create(wanted("one")); });
    std::lock_guard lock(mutex);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    uids.insert(result->sandbox.uid.str());
    created += result->created ? 1 : 0;
  });
  EXPECT_EQ(uids.size(), 1u);
  EXPECT_EQ(created, 1);
  EXPECT_EQ(catalog_.sandboxes(ProjectId("web"), {})->items.size(), 1u);
  EXPECT_EQ(events(*catalog_.sandbox(ProjectId("web"), "one"), "StartRequested"), 1);
}

TEST_F(Create, AThousandCallersWakeItOnce) {
  const auto stopped = make_stopped("a");
  at_once(kCallers, [&](int i) {
    const auto woken = patiently([&] { return wake(stopped, static_cast<Trigger>(i % 4)); });
    ASSERT_TRUE(woken.has_value()) << woken.error().message;
    EXPECT_EQ(woken->start, 2);
  });
  EXPECT_EQ(events(stopped, "StartRequested"), 2);
  EXPECT_TRUE(catalog_.sandbox(stopped.uid)->wants_running);
}

TEST_F(Create, ALostAnswerIsSafeToRepeat) {
  const auto first = sandboxes_.create(wanted("a", "key-1"));
  const auto again = sandboxes_.create(wanted("a", "key-1"));
  ASSERT_TRUE(first && again);
  EXPECT_TRUE(again->created);
  EXPECT_EQ(first->sandbox.uid, again->sandbox.uid);
  auto other = wanted("b", "key-1");
  other.input_hash = "another";
  EXPECT_EQ(sandboxes_.create(other).error().reason, "IdempotencyKeyReused");
}

TEST_F(Create, ARepeatAfterDeletionDoesNotAnswerWithTheDeadOne) {
  const auto first = sandboxes_.create(wanted("a", "key-1"));
  ASSERT_TRUE(sandboxes_.remove(first->sandbox).has_value());
  EXPECT_EQ(sandboxes_.create(wanted("a", "key-1")).error().reason, "SandboxNotRunning");
  change(first->sandbox, RecordLapse{1, "Deleted", StopReason::kDelete});
  const auto again = sandboxes_.create(wanted("a", "key-1"));
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().reason, "IdempotencyKeyReused");
  EXPECT_NE(again.error().message.find("deleted"), std::string::npos);
  EXPECT_TRUE(sandboxes_.create(wanted("a", "key-2"))->created);
}

TEST_F(Create, CreatesThatRaceWithDeletesAlwaysEndWell) {
  std::atomic<int> created = 0;
  at_once(64, [&](int i) {
    for (int round = 0; round < 8; ++round) {
      auto made = patiently([&] { return sandboxes_.create(wanted("a")); });
      if (!made) {
        EXPECT_EQ(made.error().reason, "SandboxNotRunning") << made.error().message;
        continue;
      }
      created += made->created ? 1 : 0;
      if (i % 2 != 0) continue;
      (void)sandboxes_.remove(made->sandbox);
      change(made->sandbox, RecordLapse{1, "Deleted", StopReason::kDelete});
    }
  });
  EXPECT_GT(created, 0);
  EXPECT_LE(catalog_.sandboxes(ProjectId("web"), {})->items.size(), 1u);
}

TEST_F(Create, TheSameSpecWakesAndOnlyAHigherCapIsAnotherMatter) {
  const auto stopped = make_stopped("a");
  auto raised = wanted("a");
  raised.spec.max_cost = *Money::parse("2.00");
  const auto with_cap = sandboxes_.create(raised);
  ASSERT_TRUE(with_cap.has_value()) << with_cap.error().message;
  EXPECT_FALSE(with_cap->created);
  EXPECT_EQ(with_cap->sandbox.phase, Phase::kStopped) << "raising the cap wakes nothing";
  EXPECT_EQ(with_cap->sandbox.spec.max_cost, *Money::parse("2.00"));
  EXPECT_EQ(sandboxes_.create(raised)->sandbox.phase, Phase::kPending) << "the same spec does";
  for (const char* cap : {"1.99", ""}) {
    auto lower = raised;
    lower.spec.max_cost.reset();
    if (*cap != 0) lower.spec.max_cost = *Money::parse(cap);
    const auto refused = sandboxes_.create(lower);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().reason, "AlreadyExists");
    EXPECT_EQ(refused.error().causes.front().field, "spec.maxCostUSD");
  }
  auto other = raised;
  other.spec.shape.cpu_milli = 2000;
  other.spec.max_cost = *Money::parse("3.00");
  const auto refused = sandboxes_.create(other);
  ASSERT_EQ(refused.error().causes.size(), 1u) << "a higher cap is no difference";
  EXPECT_EQ(refused.error().causes.front().field, "spec.resources.cpu");
  EXPECT_EQ(catalog_.sandbox(stopped.uid)->spec.max_cost, *Money::parse("2.00")) << "nothing was applied";
  auto as_stopped = raised;
  as_stopped.run = false;
  as_stopped.labels = {{"team", "b"}};
  EXPECT_TRUE(sandboxes_.create(as_stopped).has_value()) << "spec.state and metadata are never a difference";
}

TEST_F(Create, CapsThatAreRaisedAtOnceEndAtTheHighest) {
  ASSERT_TRUE(sandboxes_.create(wanted("a")).has_value());
  at_once(32, [&](int i) {
    auto raised = wanted("a");
    raised.spec.max_cost = Money::from_pico(int128{1'000'000'000'000} * (i + 1));
    const auto result = patiently([&] { return sandboxes_.create(raised); });
    if (!result) EXPECT_EQ(result.error().reason, "AlreadyExists") << "somebody raised it higher";
  });
  EXPECT_EQ(catalog_.sandbox(ProjectId("web"), "a")->spec.max_cost, *Money::parse("32"));
}

TEST_F(Create, CreatedStoppedItDoesNotStart) {
  auto stopped = wanted("a");
  stopped.run = false;
  const auto made = sandboxes_.create(stopped);
  EXPECT_EQ(made->sandbox.phase, Phase::kStopped);
  EXPECT_EQ(made->sandbox.start, 0);
  EXPECT_EQ(sandboxes_.create(stopped)->sandbox.start, 0) << "nor by a repeat";
  EXPECT_EQ(sandboxes_.create(wanted("a"))->sandbox.phase, Phase::kPending);
}

TEST_F(Create, ValuesOfVariablesAreSealedAndShownNowhere) {
  auto secret = wanted("a", "key-1");
  secret.env = {{"TOKEN", "tiger-stripes"}, {"EMPTY", ""}};
  const auto made = sandboxes_.create(secret);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(*sandboxes_.env_of(made->sandbox), secret.env);
  change(made->sandbox, RecordSlot{{1, 1, "machine-1", "127.0.0.1:1", clock_.now()}});
  const auto running = change(made->sandbox, RecordRunning{{1, "runsc", clock_.now()}});
  EXPECT_EQ(sandboxes_.admit(running, {.command = {"env"}})->env, secret.env);
  // Nowhere in the database: not in an event, a state, a stored answer, a row.
  for (const char* table : {"events", "heads", "sandbox_env", "sandboxes", "idempotency"})
    EXPECT_EQ(
        cell("SELECT count(*) FROM " + std::string(table) +
             " t WHERE t::text LIKE '%tiger-stripes%' OR t::text LIKE '%" + to_hex("tiger-stripes") + "%'"),
        "0")
        << table;
  EXPECT_TRUE(sandboxes_.create(secret).has_value()) << "the same values";
  auto other = secret;
  other.idempotency_key = "";
  other.env["TOKEN"] = "lion";
  other.env.erase("EMPTY");
  const auto refused = sandboxes_.create(other);
  ASSERT_FALSE(refused.has_value());
  ASSERT_EQ(refused.error().causes.size(), 2u);
  EXPECT_EQ(refused.error().causes[0].field, "spec.env.EMPTY");
  EXPECT_EQ(refused.error().causes[1].field, "spec.env.TOKEN");
  EXPECT_EQ((refused.error().message + refused.error().details_json).find("lion"), std::string::npos);
  // The key is changed: what was sealed with the old one opens, and the same values are the same.
  auto changed = *SealedEnvironment::make(std::string(64, 'b') + "," + std::string(64, 'a'));
  Sandboxes later(batcher_, catalog_, images_, changed, clock_);
  EXPECT_EQ(*later.env_of(made->sandbox), secret.env);
  secret.idempotency_key = "";
  EXPECT_TRUE(later.create(secret).has_value());
  auto wrong = *SealedEnvironment::make(std::string(64, 'c'));
  EXPECT_FALSE(Sandboxes(batcher_, catalog_, images_, wrong, clock_).env_of(made->sandbox).has_value());
  ASSERT_TRUE(sandboxes_.remove(made->sandbox).has_value());
  release(running, StopReason::kDelete);
  EXPECT_EQ(cell("SELECT count(*) FROM sandbox_env"), "0") << "gone with its Sandbox";
}

}  // namespace
}  // namespace nodus::lifecycle
