// given(events).when(command).then(events | rejection), and Sandboxes in each phase.
#pragma once

#include <gtest/gtest.h>

#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle::test {

inline Instant at_s(int64_t seconds) {
  return from_micros((1'700'000'000 + seconds) * 1'000'000);
}

inline SandboxSpec hello_spec() {
  SandboxSpec spec;
  spec.image = "nodus/agent-tools";
  spec.shape = {1000, int64_t{2} << 30, int64_t{10} << 30};
  spec.max_lifetime = std::chrono::hours(2);
  spec.max_cost = *Money::parse("1.00");
  spec.env = {{"TOKEN", "digest"}};
  return spec;
}

inline SandboxCreated hello() {
  return {.uid = SandboxUid("u-1"),
          .org = OrgId("acme"),
          .project = ProjectId("web"),
          .name = "hello",
          .spec = hello_spec(),
          .image_digest = "sha256:abc",
          .labels = {{"team", "a"}},
          .annotations = {},
          .at = at_s(0)};
}

inline const Rate kRate = Rate::from_pico_per_second(5'833'333);

struct Given {
  Sandbox state;

  Given& event(const SandboxEvent& e) {
    SandboxAggregate::evolve(state, e);
    return *this;
  }
  Result<std::vector<SandboxEvent>> when(const SandboxCommand& command, int64_t now_s = 100,
                                         std::optional<Instant> funds = std::nullopt) const {
    return SandboxAggregate::decide(state, command, {at_s(now_s), funds});
  }
  // Decides and applies; a rejection fails the test.
  Given& run(const SandboxCommand& command, int64_t now_s = 100,
             std::optional<Instant> funds = std::nullopt) {
    auto events = when(command, now_s, funds);
    EXPECT_TRUE(events.has_value()) << (events ? "" : events.error().message);
    if (events)
      for (const auto& e : *events) event(e);
    return *this;
  }
};

inline Given none() {
  return {};
}
inline Given created_stopped() {
  return Given().run(CreateSandbox{hello(), false}, 0);
}
inline Given pending() {
  return Given().run(CreateSandbox{hello(), true}, 0);
}
inline Given funded() {
  return pending().run(RecordFunding{{1, kRate, {}, at_s(1)}}, 1);
}
inline Given starting() {
  return funded().run(RecordSlot{{1, 1, "machine-1", "127.0.0.1:7410", at_s(2)}}, 2);
}
inline Given running() {
  return starting().run(RecordRunning{{1, "runsc", at_s(5)}}, 5);
}
inline Given stopping(StopReason reason = StopReason::kUser) {
  return running().run(RequestStop{reason, {}}, 50);
}
inline RestorePoint point() {
  return {"acme/u-1/1/1/1", std::string(64, 'a'), 10, at_s(51)};
}
inline ReleaseRecorded release(StopReason reason = StopReason::kUser, std::string failure = "") {
  return {.start = 1,
          .stop_reason = reason,
          .failure = std::move(failure),
          .message = "m",
          .restore_point = point(),
          .at = at_s(52)};
}
inline Given stopped() {
  return stopping().run(RecordRelease{release()}, 52);
}
inline Given failed() {
  return running().run(RecordRelease{release(StopReason::kNone, "Crashed")}, 52);
}
inline Given recovering() {
  return running().run(RecordRelease{release(StopReason::kNone, std::string(kNodeLost))}, 52);
}
inline Given deferred() {
  return pending().run(RecordLapse{1, "NoCapacity", StopReason::kNone}, 20);
}
inline Given terminating() {
  return running().run(DeleteSandbox{}, 60);
}
inline Given deleted() {
  return stopped().run(DeleteSandbox{}, 60);
}
inline Refusal broke() {
  return {"InsufficientCredits", "balance", "0.000437500000", "0.000100000000", at_s(1)};
}
inline Given refused() {
  return pending()
      .run(RecordFunding{{1, std::nullopt, broke(), at_s(1)}}, 1)
      .run(RecordLapse{1, "Refused", StopReason::kNone}, 2);
}

}  // namespace nodus::lifecycle::test
