#include "tests/unit/lifecycle/engine.hpp"

namespace nodus::lifecycle::test {
namespace {

constexpr uint64_t kSeeds = 3000;
constexpr int kSteps = 220;

SandboxSpec spec_of(uint64_t seed) {
  SandboxSpec spec = hello_spec();
  spec.idle_timeout = seed % 5 == 0 ? Micros(0) : Micros(Seconds(60));
  spec.on_idle = seed % 7 == 0 ? OnIdle::kDelete : OnIdle::kStop;
  spec.continuity = seed % 3 == 0 ? Continuity::kEphemeral : Continuity::kSnapshotted;
  spec.max_lifetime = seed % 2 == 0 ? Micros(std::chrono::hours(24)) : Micros(Seconds(1800));
  return spec;
}

// 2: one copy, and commands only in its epoch. 6: no idle stop of what is in use, none early, reads move
// nothing. 9: every start ends exactly once, every repeat does nothing. Checked inside, at each step.
TEST(Engine, HoldsOverRandomLives) {
  int64_t starts = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Engine engine(seed, spec_of(seed));
    for (int i = 0; i < kSteps; ++i) engine.step();
    starts += engine.starts();
    // 7: once maxLifetime has passed and everybody is up again, it is gone, whatever had happened.
    const Instant end = engine.sandbox().created_at + engine.sandbox().spec.max_lifetime;
    if (engine.now() < end) engine.pass(end - engine.now());
    engine.drain();
    EXPECT_EQ(engine.sandbox().phase, Phase::kDeleted) << to_string(engine.sandbox().phase);
    for (const auto& [start, ends] : engine.ends_of_starts()) EXPECT_EQ(ends, 1) << "start " << start;
    EXPECT_EQ(static_cast<int64_t>(engine.ends_of_starts().size()), engine.starts());
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(starts, static_cast<int64_t>(kSeeds) * 2) << "the lives are too dull to prove anything";
}

}  // namespace
}  // namespace nodus::lifecycle::test
