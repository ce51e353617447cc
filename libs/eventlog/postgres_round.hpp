// Internal: one transaction of the PostgreSQL log, as the statements of libs/eventlog/sql/event_log.sql.
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
  bool wrote = false;  // false: rolling back is as good as committing, and cheaper
  std::vector<Recorded> recorded;
};

// Decides what it can. All of it counts only once the transaction has committed.
Outcome run_round(pqxx::work& tx, std::span<const Work* const> works, const Round& round,
                  const std::function<void(pqxx::work&)>* also,
                  const std::function<void(pqxx::work&, std::vector<std::any>&)>& on_append);

}  // namespace nodus::eventlog
