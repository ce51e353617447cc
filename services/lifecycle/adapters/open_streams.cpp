#include "services/lifecycle/adapters/open_streams.hpp"

#include <set>
#include <vector>

namespace nodus::lifecycle {

uint64_t OpenStreams::add(std::string authorization, std::function<void()> cut) {
  std::lock_guard lock(mutex_);
  streams_.emplace(++next_, Stream{std::move(authorization), std::move(cut)});
  return next_;
}

void OpenStreams::remove(uint64_t number) {
  std::lock_guard lock(mutex_);
  streams_.erase(number);
}

size_t OpenStreams::size() const {
  std::lock_guard lock(mutex_);
  return streams_.size();
}

void OpenStreams::check() {
  std::set<std::string> keys;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [_, stream] : streams_) keys.insert(stream.authorization);
  }
  for (const auto& authorization : keys) {
    auto holder = keys_.find(authorization);
    if (holder || holder.error().code != Code::kUnauthenticated) continue;
    std::vector<std::function<void()>> cuts;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [_, stream] : streams_)
        if (stream.authorization == authorization) cuts.push_back(stream.cut);
    }
    for (const auto& cut : cuts) cut();
  }
}

}  // namespace nodus::lifecycle
