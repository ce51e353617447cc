// How far the scheduler's facts are known, by what the bus says.
#include <gtest/gtest.h>

#include "services/metering/adapters/inputs.hpp"

namespace nodus::metering {
namespace {

Instant at(int64_t second) {
  return Instant(Seconds(second));
}

struct Answer {
  std::vector<std::pair<int, int64_t>> messages;  // partition, at
  std::map<int, bool> ends;
  bool failed = false;
};

class FakeSource final : public bus::Source {
 public:
  explicit FakeSource(Answer& answer) : answer_(answer) {}
  Result<std::vector<bus::Message>> poll(int, Millis) override {
    if (answer_.failed) return fail(Code::kUnavailable, "Away", "The broker is away.");
    std::vector<bus::Message> messages;
    for (const auto& [partition, second] : answer_.messages) {
      messages.emplace_back();
      messages.back().partition = partition;
      messages.back().at = at(second);
    }
    return messages;
  }
  std::map<int, bool> at_end() const override { return answer_.ends; }
  void rewind(int) override {}

 private:
  Answer& answer_;
};

class WatermarkTest : public testing::Test {
 protected:
  void poll(int64_t now, Answer answer) {
    clock_.advance(std::chrono::duration_cast<Micros>(at(now) - clock_.now()));
    answer_ = std::move(answer);
    (void)source_->poll(100, Millis(0));
  }
  ManualClock clock_{at(0)};
  Answer answer_;
  Watermark watermark_;
  std::unique_ptr<bus::Source> source_ = watched(std::make_unique<FakeSource>(answer_), clock_, watermark_);
};

TEST_F(WatermarkTest, AnEmptyPollAtTheEndIsProgress) {
  poll(10, {{}, {{0, true}, {1, true}}});
  EXPECT_EQ(watermark_.at(), at(10));
}

TEST_F(WatermarkTest, AnEmptyPollThatKnowsNothingIsNot) {
  poll(10, {{}, {{0, true}, {1, true}}});
  poll(20, {{}, {{0, false}, {1, false}}});
  poll(30, {{}, {}});
  poll(40, {{}, {}, true});
  EXPECT_EQ(watermark_.at(), at(10));
}

TEST_F(WatermarkTest, UnderSteadyTrafficItFollowsWhatIsApplied) {
  poll(10, {{{0, 5}, {0, 6}}, {{0, false}, {1, true}}});
  EXPECT_EQ(watermark_.at(), at(0));  // not applied yet
  poll(11, {{{0, 8}}, {{0, false}, {1, true}}});
  EXPECT_EQ(watermark_.at(), at(6));
  poll(12, {{{0, 9}}, {{0, false}, {1, false}}});
  EXPECT_EQ(watermark_.at(), at(8));
  poll(13, {{{1, 12}}, {{0, true}, {1, false}}});
  EXPECT_EQ(watermark_.at(), at(9));
  poll(14, {{}, {{0, false}, {1, false}}});
  EXPECT_EQ(watermark_.at(), at(12));
}

TEST_F(WatermarkTest, WhatWasNotAppliedIsNotKnown) {
  poll(10, {{{0, 5}}, {{0, true}}});
  source_->rewind(0);
  poll(11, {{{0, 5}}, {{0, false}}});
  EXPECT_EQ(watermark_.at(), at(0));
  poll(12, {{}, {{0, false}}});
  EXPECT_EQ(watermark_.at(), at(5));
}

TEST_F(WatermarkTest, APartitionThatComesIsWaitedFor) {
  poll(10, {{}, {{0, true}}});
  poll(20, {{}, {{0, true}, {1, false}}});
  EXPECT_EQ(watermark_.at(), at(10));
  poll(30, {{}, {{0, true}, {1, true}}});
  EXPECT_EQ(watermark_.at(), at(30));
}

}  // namespace
}  // namespace nodus::metering
