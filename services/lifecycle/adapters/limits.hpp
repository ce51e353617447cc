// How much one key, and one organization, may ask of this process: requests a second of a key (a token
// bucket) and requests under way at once (a watch or an open terminal is one for as long as it lasts). In
// memory, so each replica grants it anew. Thread-safe; no call blocks.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "libs/base/clock.hpp"
#include "services/lifecycle/adapters/keys.hpp"

namespace nodus::lifecycle {

struct LimitOptions {
  int64_t requests_per_s = 1'000;  // of a key, on average
  int64_t burst = 2'000;           // of a key, at once
  int64_t open_per_key = 2'048;    // under way at once
  int64_t open_per_org = 3'072;    // of all its keys: connections are left for others
};

class Limits {
 public:
  Limits(const Clock& clock, LimitOptions options) : clock_(clock), options_(options) {}

  // A request under way; counted until it goes away.
  class Open {
   public:
    Open() = default;
    Open(Limits* limits, std::string key_id, std::string org)
        : limits_(limits), key_id_(std::move(key_id)), org_(std::move(org)) {}
    Open(Open&& other) noexcept
        : limits_(std::exchange(other.limits_, nullptr)),
          key_id_(std::move(other.key_id_)),
          org_(std::move(other.org_)) {}
    Open& operator=(Open&& other) noexcept {
      std::swap(limits_, other.limits_);
      std::swap(key_id_, other.key_id_);
      std::swap(org_, other.org_);
      return *this;
    }
    ~Open() {
      if (limits_) limits_->close(key_id_, org_);
    }

   private:
    Limits* limits_ = nullptr;
    std::string key_id_;
    std::string org_;
  };

  // TooManyRequests, with when to come again.
  Result<Open> admit(const KeyHolder& holder);

 private:
  struct Bucket {
    double tokens = 0;
    Micros at{0};
    int64_t open = 0;
  };
  void close(const std::string& key_id, const std::string& org);
  void shrink();

  const Clock& clock_;
  const LimitOptions options_;
  std::mutex mutex_;
  std::unordered_map<std::string, Bucket> keys_;  // bounded: full and idle buckets are dropped
  std::unordered_map<std::string, int64_t> orgs_;
};

}  // namespace nodus::lifecycle
