// API keys: who a request speaks for. A secret has 256 random bits and is kept as its SHA-256 only, so no
// slow hash is needed. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "libs/base/clock.hpp"
#include "libs/http/identity.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::lifecycle {

// Whose secret it is.
struct KeyHolder {
  OrgId org;
  std::string key_id;
  std::string key_name;
  std::string role;           // viewer | developer | billing | admin
  std::string bound_project;  // name of the only project it may use; empty: all of the organization's
  bool suspended = false;     // the organization
  std::string suspended_reason;

  bool operator==(const KeyHolder&) const = default;
};

class Keys {
 public:
  Keys(pg::Pool& pool, const Clock& clock) : pool_(pool), clock_(clock) {}

  // Takes an Authorization field. Unauthenticated/Unauthorized without a secret that is in force; an unknown,
  // an expired and a revoked one get the same answer. Blocks; what it finds is kept for half a second, so
  // that a change elsewhere (another replica, the operator's command) is effective within that time.
  Result<KeyHolder> find(std::string_view authorization);
  // NotFound for a project that is not the holder's, whether or not another organization has one of that
  // name.
  Result<ProjectId> project(const KeyHolder& holder, const std::string& name);

  // The same from memory; never blocks. Nothing: ask the blocking one.
  std::optional<KeyHolder> known(std::string_view authorization);
  std::optional<ProjectId> known_project(const KeyHolder& holder, const std::string& name);

  // After a change made in this process: it is effective at once.
  void forget();

 private:
  template <class T>
  struct Kept {
    T value;
    Micros until{0};  // boot clock
  };
  template <class T>
  std::optional<T> look(const std::map<std::string, Kept<T>>& in, const std::string& key);
  template <class T>
  void keep(std::map<std::string, Kept<T>>& in, const std::string& key, T value, uint64_t generation,
            Micros until);
  uint64_t generation();

  pg::Pool& pool_;
  const Clock& clock_;
  std::mutex mutex_;                                 // guards what follows
  uint64_t generation_ = 0;                          // what was read before a change is not kept after it
  std::map<std::string, Kept<KeyHolder>> holders_;   // by hash of the secret; bounded
  std::map<std::string, Kept<ProjectId>> projects_;  // by organization and name; bounded
};

}  // namespace nodus::lifecycle
