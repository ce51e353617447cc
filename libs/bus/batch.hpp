// One transaction of a consumer: some messages, their effects, what gets parked, and the offsets.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libs/bus/bus.hpp"

namespace nodus::bus {

struct Item {
  Message message;
  std::optional<eventlog::Work> work;  // none: not for us, or it cannot be routed (then `fault`)
  std::optional<Error> fault;          // why it must be parked, known before any decide()
};

enum class Outcome {
  kCommitted,
  kStale,     // the offsets or the parked rows are not what this replica thought: read them again
  kRetry,     // nothing happened; the same again later
  kRejected,  // the database refused something that a retry cannot help
};

struct Attempt {
  Outcome outcome = Outcome::kCommitted;
  Error error;                                           // of kRetry and kRejected
  std::vector<std::pair<const Message*, Error>> parked;  // of kCommitted; behind an earlier one: kBehind
};
inline constexpr const char* kBehind = "BehindParked";

// Applies `items` (in order) in one transaction. `applied` is each partition's last applied position,
// `blocked` the streams that are known to have parked messages.
Attempt apply_items(eventlog::EventLog& own, pg::Pool& own_database, std::span<const Item> items,
                    const std::map<int, int64_t>& applied, const std::set<std::string>& blocked);

std::string describe(const Error& error);  // "reason: message", for the parked row

}  // namespace nodus::bus
