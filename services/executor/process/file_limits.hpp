// How much of files a slot may have under way.
#pragma once

#include <cstddef>

#include "libs/base/clock.hpp"

namespace nodus::executor {

struct FileLimits {
  size_t at_once = 40;          // operations of one slot; the helper has workers for more
  size_t waiting = 1024;        // for their turn, all slots
  size_t uploads = 8;           // by parts, of one slot
  size_t answers = 4096;        // remembered, all slots
  Millis turn{30'000};          // the longest wait for one's turn
  Millis upload_idle{120'000};  // an upload without a part for so long is dropped
  Millis closing_grace{3'000};  // what is under way when the slot closes
};

}  // namespace nodus::executor
