#include "services/lifecycle/adapters/limits.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace nodus::lifecycle {

namespace {

constexpr size_t kMaxBuckets = 10'000;

std::unexpected<Error> too_many(std::string message, int retry_after_s) {
  message +=
      fmt::format(" Send the request again in {} second{}.", retry_after_s, retry_after_s == 1 ? "" : "s");
  return std::unexpected(
      Error{Code::kTooManyRequests, "TooManyRequests", std::move(message), {}, retry_after_s, {}});
}

}  // namespace

Result<Limits::Open> Limits::admit(const KeyHolder& holder) {
  const Micros now = clock_.boot();
  const auto rate = static_cast<double>(options_.requests_per_s);
  std::lock_guard lock(mutex_);
  if (keys_.size() >= kMaxBuckets) shrink();
  auto [it, fresh] = keys_.try_emplace(holder.key_id);
  Bucket& bucket = it->second;
  const std::chrono::duration<double> passed = now - bucket.at;
  bucket.tokens = fresh
                      ? static_cast<double>(options_.burst)
                      : std::min(static_cast<double>(options_.burst), bucket.tokens + passed.count() * rate);
  bucket.at = now;
  if (bucket.tokens < 1)
    return too_many(fmt::format("This key sends more than {} requests a second.", options_.requests_per_s),
                    std::max(1, static_cast<int>(std::ceil((1 - bucket.tokens) / rate))));
  if (bucket.open >= options_.open_per_key)
    return too_many(fmt::format("This key has {} requests and streams open, which is the most.", bucket.open),
                    1);
  int64_t& open = orgs_[holder.org.str()];
  if (open >= options_.open_per_org)
    return too_many(
        fmt::format("Your organization has {} requests and streams open, which is the most.", open), 1);
  bucket.tokens -= 1;
  ++bucket.open;
  ++open;
  return Open(this, holder.key_id, holder.org.str());
}

void Limits::close(const std::string& key_id, const std::string& org) {
  std::lock_guard lock(mutex_);
  if (const auto it = keys_.find(key_id); it != keys_.end()) --it->second.open;
  if (const auto it = orgs_.find(org); it != orgs_.end() && --it->second == 0) orgs_.erase(it);
}

// A bucket that would be full by now says nothing.
void Limits::shrink() {
  const Micros now = clock_.boot();
  std::erase_if(keys_, [&](const auto& entry) {
    const std::chrono::duration<double> passed = now - entry.second.at;
    return entry.second.open == 0 &&
           entry.second.tokens + passed.count() * static_cast<double>(options_.requests_per_s) >=
               static_cast<double>(options_.burst);
  });
}

}  // namespace nodus::lifecycle
