#include "services/executor/adapters/channel/activity_feed.hpp"

#include <gtest/gtest.h>

#include "nodus/node/v1/channel.pb.h"

namespace nodus::executor {
namespace {

const Instant kT0 = from_micros(1'700'000'000'000'000);

class Feed : public ::testing::Test {
 protected:
  // One look, five seconds after the last; answers what was told: "-" for nothing.
  std::string look(bool busy, const std::string& because, int64_t last_s, Phase phase = Phase::kRunning) {
    SlotReport report{.key = {SandboxUid("u-1"), 3}, .phase = phase};
    report.activity = {kT0 + Seconds(last_s), busy, because};
    std::string told = "-";
    now_ += Seconds(5);
    feed_.look({report}, now_, [&](const std::string& body) -> Result<void> {
      if (!reachable_) return fail(Code::kUnavailable, "Away", "");
      node::v1::ActivityReports reports;
      EXPECT_TRUE(reports.ParseFromString(body));
      EXPECT_EQ(reports.machine(), "m-1");
      EXPECT_EQ(reports.reports_size(), 1);
      EXPECT_EQ(reports.reports(0).epoch(), 3);
      told = reports.reports(0).busy() ? "busy " + reports.reports(0).because() : "idle";
      return {};
    });
    return told;
  }

  bool reachable_ = true;
  Micros now_{0};
  ActivityFeed feed_{"m-1"};
};

TEST_F(Feed, TellsEdgesThatStay) {
  EXPECT_EQ(look(false, "", 0), "-");
  EXPECT_EQ(look(true, "process 42 (node)", 5), "-") << "it may be over at once";
  EXPECT_EQ(look(true, "process 42 (node)", 10), "busy process 42 (node)");
  EXPECT_EQ(look(true, "process 42 (node)", 15), "-") << "no news, for hours";
  EXPECT_EQ(look(false, "", 18), "-");
  EXPECT_EQ(look(false, "", 18), "idle");
  EXPECT_EQ(look(true, "command sb-a-1", 30), "-");
  EXPECT_EQ(look(false, "", 31), "-") << "a short command is no news";
}

TEST_F(Feed, SaysWhenItWasLastUsedAtMostTwiceAMinute) {
  look(true, "command sb-a-1", 1);
  look(true, "command sb-a-1", 2);
  look(false, "", 3);
  EXPECT_EQ(look(false, "", 3), "idle");
  int told = 0;
  for (int i = 0; i < 24; ++i)
    told += look(false, "", 10 + i) == "idle" ? 1 : 0;  // two minutes of file requests
  EXPECT_EQ(told, 4);
}

TEST_F(Feed, WhatCouldNotBeToldIsToldLater) {
  look(true, "a process", 1);
  reachable_ = false;
  EXPECT_EQ(look(true, "a process", 2), "-");
  reachable_ = true;
  EXPECT_EQ(look(true, "a process", 3), "busy a process");
  EXPECT_EQ(look(true, "a process", 4, Phase::kStopping), "-");
  EXPECT_EQ(look(true, "a process", 5), "-") << "another start begins anew";
  EXPECT_EQ(look(true, "a process", 6), "busy a process");
}

}  // namespace
}  // namespace nodus::executor
