// Invariant 10 on the pure core: every Process ends with exactly one reason of the table, whoever says so
// first, in whatever order and however often it is said.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "services/lifecycle/domain/process.hpp"

namespace nodus::lifecycle {
namespace {

constexpr std::array<std::string_view, 9> kEnds = {
    "",         "NonZeroExit",         "Signaled",      "DeadlineExceeded", "StartFailed",
    "NodeLost", "OutputLimitExceeded", "ParentStopped", "Cancelled"};

Instant at_s(int64_t seconds) {
  return from_micros(seconds * 1'000'000);
}

ProcessAdmitted admitted(int64_t epoch = 3) {
  ProcessAdmitted out;
  out.uid = ProcessUid("p-1");
  out.sandbox = SandboxUid("s-1");
  out.machine = "machine-1";
  out.epoch = epoch;
  out.name = "sb-hello-1";
  out.command = {"true"};
  out.at = at_s(1);
  return out;
}

ProcessEnded end_of(std::string_view reason, int64_t seconds) {
  ProcessEnded out;
  out.reason = reason;
  out.exit_code = reason.empty() ? 0 : 137;
  out.ended_at = at_s(seconds);
  return out;
}

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  void step() {
    ++now_s_;
    const auto before = state_;
    const auto events = ProcessAggregate::decide(state_, any_command(), {});
    if (!events) return;
    EXPECT_LE(events->size(), 1u);
    for (const auto& event : *events) {
      if (const auto* ended = std::get_if<ProcessEnded>(&event)) {
        EXPECT_FALSE(before.ended) << "it ended twice";
        EXPECT_FALSE(before.admitted.uid.empty()) << "it ended before it was there";
        EXPECT_TRUE(valid_end(*ended)) << ended->reason;
        ++ends_;
      }
      ProcessAggregate::evolve(state_, event);
      // The same again says nothing new.
      if (before.ended) EXPECT_EQ(state_.ended->reason, before.ended->reason);
    }
    if (before.ended) EXPECT_TRUE(state_.ended) << "an end was taken back";
  }

  // What always comes in the end: the machine's report, or that its start is over (app/process_keeper.hpp).
  void finish() {
    if (state_.admitted.uid.empty()) ProcessAggregate::evolve(state_, admitted());
    const auto events = ProcessAggregate::decide(
        state_, EndProcess{"", 3, end_of(pick(2) ? "ParentStopped" : "NodeLost", now_s_)}, {});
    ASSERT_TRUE(events.has_value());
    EXPECT_EQ(events->empty(), state_.ended.has_value());
    for (const auto& event : *events) {
      ProcessAggregate::evolve(state_, event);
      ++ends_;
    }
    EXPECT_TRUE(state_.ended);
    EXPECT_EQ(ends_, 1);
  }

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }

  ProcessCommand any_command() {
    switch (pick(8)) {
      case 0:
        return AdmitProcess{admitted()};
      case 1:
        return RepeatProcess{};
      case 2:
        return AbandonProcess{"It was not taken on.", at_s(now_s_)};
      case 3: {
        auto end = end_of(kEnds[pick(kEnds.size())], now_s_);
        if (pick(2)) end.reason = "Exploded";
        if (pick(4) == 0) end.exit_code = 4711;
        return EndProcess{"machine-1", 3, end};
      }
      default:
        return EndProcess{pick(3)   ? "machine-1"
                          : pick(2) ? "machine-2"
                                    : "",
                          static_cast<int64_t>(2 + pick(3)), end_of(kEnds[pick(kEnds.size())], now_s_)};
    }
  }

  std::mt19937_64 random_;
  Process state_;
  int64_t now_s_ = 1;
  int ends_ = 0;
};

TEST(ProcessProperty, EndsExactlyOnce) {
  for (uint64_t seed = 1; seed <= 5'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    const int steps = static_cast<int>(seed % 40);
    for (int i = 0; i < steps; ++i) world.step();
    world.finish();
    if (::testing::Test::HasFailure()) return;
  }
}

Process given(std::initializer_list<ProcessEvent> events) {
  Process out;
  for (const auto& event : events) ProcessAggregate::evolve(out, event);
  return out;
}

TEST(Process, EveryEndOfTheTableIsOneAndNothingElseIs) {
  const auto process = given({admitted()});
  for (const auto reason : kEnds)
    EXPECT_EQ(ProcessAggregate::decide(process, EndProcess{"machine-1", 3, end_of(reason, 2)}, {})->size(),
              1u)
        << reason;
  auto odd = end_of("", 2);
  odd.exit_code = 1;
  EXPECT_EQ(ProcessAggregate::decide(process, EndProcess{"machine-1", 3, odd}, {}).error().reason, "Invalid");
  odd = end_of("NonZeroExit", 2);
  odd.exit_code = 0;
  EXPECT_EQ(ProcessAggregate::decide(process, EndProcess{"machine-1", 3, odd}, {}).error().reason, "Invalid");
  odd = end_of("Signaled", 2);
  odd.exit_code = 256;
  EXPECT_EQ(ProcessAggregate::decide(process, EndProcess{"machine-1", 3, odd}, {}).error().reason, "Invalid");
}

TEST(Process, IsAbandonedOnlyWhileOneRequestKnowsIt) {
  const AbandonProcess abandon{"It was not taken on.", at_s(2)};
  const auto once = ProcessAggregate::decide(given({admitted()}), abandon, {});
  ASSERT_EQ(once->size(), 1u);
  const auto& end = std::get<ProcessEnded>(once->front());
  EXPECT_EQ(end.reason, "StartFailed");
  EXPECT_TRUE(end.never_reached);
  const auto repeated = given({admitted(), ProcessRepeated{ProcessUid("p-1")}});
  EXPECT_TRUE(ProcessAggregate::decide(repeated, abandon, {})->empty());
  EXPECT_TRUE(ProcessAggregate::decide(repeated, RepeatProcess{}, {})->empty());
  EXPECT_TRUE(ProcessAggregate::decide(given({admitted(), end_of("", 2)}), RepeatProcess{}, {})->empty());
}

}  // namespace
}  // namespace nodus::lifecycle
