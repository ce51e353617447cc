// Capped, jittered waits between attempts.
#pragma once

#include <algorithm>

#include "libs/base/clock.hpp"
#include "libs/base/random.hpp"

namespace nodus::bus {

class Backoff {
 public:
  Backoff(Millis first, Millis cap) : first_(first), cap_(cap), next_(first) {}
  // Between half of and the whole current wait; the current wait doubles up to the cap.
  Millis next() {
    const auto wait = next_;
    next_ = std::min(cap_, next_ * 2);
    const auto half = wait.count() / 2;
    return Millis(half + static_cast<int64_t>(random_below(static_cast<uint64_t>(half) + 1)));
  }
  void reset() { next_ = first_; }

 private:
  Millis first_;
  Millis cap_;
  Millis next_;
};

}  // namespace nodus::bus
