// Internal: one transaction of the PostgreSQL log, as the statements of libs/eventlog/sql.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libs/eventlog/batch.hpp"

namespace nodus::eventlog {

// Missing: another transaction holds one of the Work's heads.
using Answers = std::vector<std::optional<Result<std::string>>>;

struct Round {
  int partitions = 0;
  Instant now;
  bool may_wait = false;  // for heads that others hold, in sorted order; else such Works stay unanswered
};

struct Outcome {
  Answers answers;
  bool wrote = false;  // and committed; false: rolling back is as good, and cheaper
  std::vector<Recorded> recorded;
};

// Decides what it can and commits, if there is anything to keep. With `also`, only if every Work was
// answered.
Outcome run_round(pg::Tx& tx, std::span<const Work* const> works, const Round& round,
                  const std::function<void(pg::Tx&)>* also,
                  const std::function<void(pg::Tx&, std::vector<std::any>&)>& on_append);

}  // namespace nodus::eventlog
