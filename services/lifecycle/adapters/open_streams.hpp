// Requests of streaming routes under way, and the key of each: when a key is revoked, rotated out or expires,
// what it opened is cut within a second, not when it ends by itself. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "services/lifecycle/adapters/keys.hpp"

namespace nodus::lifecycle {

class OpenStreams {
 public:
  explicit OpenStreams(Keys& keys) : keys_(keys) {}

  class Entry {
   public:
    Entry(OpenStreams& streams, uint64_t number) : streams_(streams), number_(number) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { streams_.remove(number_); }

   private:
    OpenStreams& streams_;
    uint64_t number_;
  };

  // `cut` is thread-safe and does not block. The number is for an Entry.
  uint64_t add(std::string authorization, std::function<void()> cut);
  // Asks for each key that has streams whether it is still in force, and cuts those that are not. Blocks.
  void check();
  size_t size() const;

 private:
  struct Stream {
    std::string authorization;
    std::function<void()> cut;
  };
  void remove(uint64_t number);

  Keys& keys_;
  mutable std::mutex mutex_;
  uint64_t next_ = 0;
  std::map<uint64_t, Stream> streams_;
};

}  // namespace nodus::lifecycle
