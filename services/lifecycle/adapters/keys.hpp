// API keys: who a request speaks for. Stored as SHA-256 of the key; a key has 256 random bits, so no slow
// hash is needed.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "libs/base/clock.hpp"
#include "libs/http/identity.hpp"
#include "libs/http/message.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::lifecycle {

class Keys {
 public:
  Keys(pg::Pool& pool, const Clock& clock) : pool_(pool), clock_(clock) {}

  // Unauthenticated/Unauthorized without a valid key; NotFound when the project is not the key's
  // organization's, so that nobody learns which projects exist. Answers are kept for two seconds.
  // Without a project: whose key it is.
  Result<http::Identity> authenticate(const http::Request& request, const std::optional<ProjectId>& project);

  // Makes the organization, the project and, if `key` is not stored yet, an admin key. Idempotent.
  Result<void> bootstrap(const OrgId& org, const ProjectId& project, const std::string& key);

 private:
  struct Known {
    http::Identity identity;
    Micros until{0};
  };
  pg::Pool& pool_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // by key hash and project; at most kMaxKnown
};

}  // namespace nodus::lifecycle
