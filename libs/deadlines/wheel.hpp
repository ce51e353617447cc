// Which armed deadlines are due: a hierarchical timing wheel with ticks of a millisecond. Pure: the caller
// brings the time. Arming, moving and cancelling take constant time; a deadline is handed on at most as many
// times as there are levels. About 50 bytes for each armed one. Not thread-safe.
//
//   level 0: the 64 ms around now, a slot for each ms    level 1: 64 slots of 64 ms    … 8 levels: 8,900
//   years
//
// An entry's level is that of the highest 6 bits in which its tick differs from the wheel's, so that all of a
// lower level come before all of a higher one, and nothing ever wraps around.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "libs/base/clock.hpp"

namespace nodus::deadlines {

struct Key {
  uint64_t high = 0, low = 0;  // a UUID
  uint8_t kind = 0;            // of what it belongs to; among what is due, lower kinds are given out first

  bool operator==(const Key&) const = default;
};

struct Armed {
  Key key;
  Instant due;

  bool operator==(const Armed&) const = default;
};

class Wheel {
 public:
  static constexpr int kKinds = 8;

  explicit Wheel(Instant now);

  void arm(const Key& key, Instant due);  // replaces an earlier one of the same key
  bool cancel(const Key& key);            // false: it was not armed
  std::optional<Instant> due_of(const Key& key) const;
  size_t size() const { return size_; }

  // What is due moves to the front; a time before an earlier one counts as that one. Never early.
  void advance(Instant now);
  // Takes up to `limit` of what is due: by kind, then in the order in which they became due.
  std::vector<Armed> take(size_t limit);
  bool ready() const;  // take() would give something
  // When to advance next: never later than the next deadline, perhaps earlier. Nothing armed: nullopt.
  std::optional<Instant> next() const;

  size_t memory_bytes() const;

 private:
  static constexpr int kBits = 6, kSlots = 1 << kBits, kLevels = 8;
  static constexpr uint32_t kNone = ~0U;
  static constexpr uint32_t kChunk = 4096;  // entries
  struct Entry {
    uint64_t high, low;
    int64_t due_us;
    uint32_t next, previous;
    uint16_t list;
    uint8_t kind;
  };

  Entry& entry(uint32_t at) { return chunks_[at / kChunk][at % kChunk]; }
  const Entry& entry(uint32_t at) const { return chunks_[at / kChunk][at % kChunk]; }
  uint32_t allocate();
  void place(uint32_t at);   // into the list that its due time asks for
  void unlink(uint32_t at);  // out of its list
  void push(uint16_t list, uint32_t at);
  void release(uint32_t at);
  size_t index_of(const Key& key) const;  // where it is in the table, or would be
  void erase_index(size_t position);
  void grow_index();

  int64_t tick_;                                  // every entry of the slots is due after it
  std::vector<std::unique_ptr<Entry[]>> chunks_;  // never moved, so growing needs no second copy
  std::vector<uint32_t> index_;                   // open addressing; a power of two
  std::array<uint32_t, kLevels * kSlots + kKinds> head_, tail_;  // slots, then what is due, by kind
  std::array<uint64_t, kLevels> occupied_{};                     // a bit for each slot
  uint32_t free_ = kNone, used_ = 0;
  size_t size_ = 0;
};

}  // namespace nodus::deadlines
