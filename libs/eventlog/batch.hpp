// Internal: what happens between "the heads are locked" and "the rows are written", the same in every
// implementation. A Batch decides Works one after the other; a Work that fails leaves nothing in it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "libs/eventlog/event_log.hpp"

namespace nodus::eventlog {

struct Accepted {
  std::string input_hash;
  std::string answer;
};

class Batch {
 public:
  explicit Batch(pg::Tx* tx) : tx_(tx) {}

  void add_head(Head head);
  void add_accepted(const std::string& key, Accepted accepted);  // from an earlier transaction

  // The stored answer of the Work's key, or the refusal of another input; nullopt: it must be decided.
  std::optional<Result<std::string>> known(const Work& work) const;
  bool has_heads(const Work& work) const;  // all of its streams are here
  // Needs has_heads(). Runs its projections at once, so that later Works read them; a pqxx exception passes.
  Result<std::string> decide(const Work& work);

  // The outcome.
  std::unordered_map<std::string, Head> heads;  // every head, as it is now
  std::set<std::string> changed;                // streams to write
  std::vector<Recorded> events;                 // in order, without partition, position and time
  std::map<std::string, Accepted> accepted;     // keys of this batch to store
  bool projected = false;                       // some Work wrote rows of its own
  std::vector<std::any> staged;                 // notes for on_append

 private:
  pg::Tx* tx_;
  std::map<std::string, Accepted> before_;
};

// Invalid/IdempotencyKeyInvalid for a key that cannot be stored. CHECKs what callers must never do.
std::optional<Error> refuse(const Work& work);

}  // namespace nodus::eventlog
