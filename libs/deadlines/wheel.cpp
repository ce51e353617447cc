#include "libs/deadlines/wheel.hpp"

#include <algorithm>
#include <bit>

#include "libs/base/check.hpp"

namespace nodus::deadlines {

namespace {

constexpr int64_t kLastTick = (int64_t{1} << 48) - 1;

// Rounded up, so that a tick that has come means a due time that has come.
int64_t tick_of(int64_t due_us) {
  const int64_t tick = due_us <= 0 ? 0 : (due_us - 1) / 1000 + 1;
  return std::min(tick, kLastTick);
}

uint64_t hash_of(uint64_t high, uint64_t low, uint8_t kind) {
  uint64_t h = (high ^ std::rotl(low, 32)) + 0x9E3779B97F4A7C15ULL * (kind + 1ULL);
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
  return h ^ (h >> 31);
}

}  // namespace

Wheel::Wheel(Instant now)
    : tick_(std::clamp<int64_t>(to_micros(now) / 1000, 0, kLastTick)), index_(64, kNone) {
  head_.fill(kNone);
  tail_.fill(kNone);
}

void Wheel::arm(const Key& key, Instant due) {
  CHECK(key.kind < kKinds, "kind {}", key.kind);
  if ((size_ + 1) * 4 > index_.size() * 3) grow_index();
  const size_t position = index_of(key);
  uint32_t at = index_[position];
  if (at != kNone) {
    if (entry(at).due_us == to_micros(due)) return;
    unlink(at);
  } else {
    at = allocate();
    index_[position] = at;
    entry(at) = {key.high, key.low, 0, kNone, kNone, 0, key.kind};
    ++size_;
  }
  entry(at).due_us = to_micros(due);
  place(at);
}

bool Wheel::cancel(const Key& key) {
  const size_t position = index_of(key);
  const uint32_t at = index_[position];
  if (at == kNone) return false;
  unlink(at);
  erase_index(position);
  release(at);
  return true;
}

std::optional<Instant> Wheel::due_of(const Key& key) const {
  const uint32_t at = index_[index_of(key)];
  if (at == kNone) return std::nullopt;
  return from_micros(entry(at).due_us);
}

void Wheel::advance(Instant now) {
  const int64_t target = std::min(to_micros(now) / 1000, kLastTick);
  while (tick_ < target) {
    // The first slot that is not empty: of the lowest level that has any, since those come first.
    int level = 0;
    while (level < kLevels && occupied_[level] == 0) ++level;
    if (level == kLevels) break;
    const int slot = std::countr_zero(occupied_[level]);
    const int shift = level * kBits;
    const int64_t start = ((tick_ >> (shift + kBits)) << (shift + kBits)) | (int64_t{slot} << shift);
    if (start > target) break;
    tick_ = start;
    const auto list = static_cast<uint16_t>(level * kSlots + slot);
    uint32_t at = head_[list];
    head_[list] = tail_[list] = kNone;
    occupied_[level] &= ~(uint64_t{1} << slot);
    while (at != kNone) {  // to a lower level, or to what is due
      const uint32_t next = entry(at).next;
      place(at);
      at = next;
    }
  }
  tick_ = std::max(tick_, target);  // every slot that begins up to there was handed on
}

std::vector<Armed> Wheel::take(size_t limit) {
  std::vector<Armed> out;
  for (int kind = 0; kind < kKinds; ++kind) {
    const int list = kLevels * kSlots + kind;
    while (out.size() < limit && head_[list] != kNone) {
      const uint32_t at = head_[list];
      const Entry& e = entry(at);
      out.push_back({{e.high, e.low, e.kind}, from_micros(e.due_us)});
      cancel(out.back().key);
    }
  }
  return out;
}

bool Wheel::ready() const {
  return std::any_of(head_.begin() + kLevels * kSlots, head_.end(), [](uint32_t at) { return at != kNone; });
}

std::optional<Instant> Wheel::next() const {
  if (ready()) return from_micros(tick_ * 1000);
  for (int level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) continue;
    const int shift = level * kBits;
    const int64_t slot = std::countr_zero(occupied_[level]);
    return from_micros((((tick_ >> (shift + kBits)) << (shift + kBits)) | (slot << shift)) * 1000);
  }
  return std::nullopt;
}

size_t Wheel::memory_bytes() const {
  return sizeof(*this) + chunks_.capacity() * sizeof(chunks_[0]) + chunks_.size() * kChunk * sizeof(Entry) +
         index_.capacity() * sizeof(uint32_t);
}

uint32_t Wheel::allocate() {
  if (free_ != kNone) {
    const uint32_t at = free_;
    free_ = entry(at).next;
    return at;
  }
  if (used_ == chunks_.size() * kChunk) chunks_.push_back(std::make_unique_for_overwrite<Entry[]>(kChunk));
  return used_++;
}

void Wheel::place(uint32_t at) {
  const Entry& e = entry(at);
  const int64_t tick = tick_of(e.due_us);
  if (tick <= tick_) return push(static_cast<uint16_t>(kLevels * kSlots + e.kind), at);
  const int level = (63 - std::countl_zero(static_cast<uint64_t>(tick ^ tick_))) / kBits;
  const auto slot = static_cast<int>((tick >> (level * kBits)) & (kSlots - 1));
  occupied_[level] |= uint64_t{1} << slot;
  push(static_cast<uint16_t>(level * kSlots + slot), at);
}

void Wheel::push(uint16_t list, uint32_t at) {
  Entry& e = entry(at);
  e.list = list;
  e.next = kNone;
  e.previous = tail_[list];
  (tail_[list] == kNone ? head_[list] : entry(tail_[list]).next) = at;
  tail_[list] = at;
}

void Wheel::unlink(uint32_t at) {
  const Entry& e = entry(at);
  (e.previous == kNone ? head_[e.list] : entry(e.previous).next) = e.next;
  (e.next == kNone ? tail_[e.list] : entry(e.next).previous) = e.previous;
  if (head_[e.list] == kNone && e.list < kLevels * kSlots)
    occupied_[e.list / kSlots] &= ~(uint64_t{1} << (e.list % kSlots));
}

void Wheel::release(uint32_t at) {
  entry(at).next = free_;
  free_ = at;
  --size_;
}

size_t Wheel::index_of(const Key& key) const {
  const size_t mask = index_.size() - 1;
  for (size_t position = hash_of(key.high, key.low, key.kind) & mask;; position = (position + 1) & mask) {
    const uint32_t at = index_[position];
    if (at == kNone) return position;
    const Entry& e = entry(at);
    if (e.low == key.low && e.high == key.high && e.kind == key.kind) return position;
  }
}

// Linear probing without tombstones: what follows moves back into the gap where it may.
void Wheel::erase_index(size_t gap) {
  const size_t mask = index_.size() - 1;
  for (size_t position = (gap + 1) & mask; index_[position] != kNone; position = (position + 1) & mask) {
    const Entry& e = entry(index_[position]);
    const size_t home = hash_of(e.high, e.low, e.kind) & mask;
    if (((position - home) & mask) < ((position - gap) & mask)) continue;
    index_[gap] = index_[position];
    gap = position;
  }
  index_[gap] = kNone;
}

void Wheel::grow_index() {
  std::vector<uint32_t> old(index_.size() * 2, kNone);
  old.swap(index_);
  for (const uint32_t at : old) {
    if (at == kNone) continue;
    const Entry& e = entry(at);
    index_[index_of({e.high, e.low, e.kind})] = at;
  }
}

}  // namespace nodus::deadlines
