// The contract of an event log. Each implementation instantiates the suite with a factory of fresh logs.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libs/eventlog/event_log.hpp"

namespace nodus::eventlog::contract {

struct Subject {
  virtual ~Subject() = default;
  virtual EventLog& log() = 0;
  ManualClock clock;
};

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;  // 4 partitions
};

class EventLogContract : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override { subject_ = GetParam().make(); }
  EventLog& log() { return subject_->log(); }

  std::unique_ptr<Subject> subject_;
};

// Appends `count` events to `stream`; the state counts them, the answer is the new version.
Work add(const std::string& stream, int count = 1, const std::string& key = "", const std::string& hash = "");
// Appends one event to each stream and refuses afterwards.
Work refuse_after_appending(std::vector<std::string> streams, const std::string& key = "");

std::vector<Recorded> read_all(EventLog& log, int page = 7);
// Gapless positions; each stream in one partition, versions 1, 2, 3 …; heads agree.
void expect_sound(EventLog& log);

}  // namespace nodus::eventlog::contract
