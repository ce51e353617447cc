// The scheduler's words. Pure values: no clock, no I/O, no encodings.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "libs/base/clock.hpp"
#include "libs/base/ids.hpp"

namespace nodus::scheduler {

inline constexpr Instant kNever{};

// What a Sandbox asked for, what a machine has, and what is taken of it.
struct Shape {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;

  bool operator==(const Shape&) const = default;
  Shape operator+(const Shape& o) const {
    return {cpu_milli + o.cpu_milli, memory_bytes + o.memory_bytes, disk_bytes + o.disk_bytes};
  }
  Shape operator-(const Shape& o) const {
    return {cpu_milli - o.cpu_milli, memory_bytes - o.memory_bytes, disk_bytes - o.disk_bytes};
  }
  bool fits_in(const Shape& room) const {
    return cpu_milli <= room.cpu_milli && memory_bytes <= room.memory_bytes && disk_bytes <= room.disk_bytes;
  }
};

// The numbers are those of the wire (nodus.common.v1.StopReason).
enum class StopReason {
  kNone = 0,
  kUser = 1,
  kIdle = 2,
  kInsufficientCredits = 3,
  kBudgetExceeded = 4,
  kMaxCostReached = 5,
  kDelete = 6,
};

struct RestorePoint {
  std::string object;
  std::string sha256;
  int64_t size_bytes = 0;
  Instant taken_at{};

  bool operator==(const RestorePoint&) const = default;
};

// One start of a Sandbox, as lifecycle asked for it: all that a node must know to run it.
struct Order {
  SandboxUid sandbox;
  int64_t start = 0;
  OrgId org;
  ProjectId project;
  std::string name;
  std::string image;
  std::string image_digest;
  Shape shape;
  std::string egress_policy;
  std::string continuity_mode;
  std::string working_dir;
  std::string max_cost_usd;  // empty: none
  std::string spent_usd;
  bool recovery = false;                      // the platform starts it anew by itself
  std::optional<RestorePoint> restore_point;  // none: from the image
  std::map<std::string, std::string> labels;  // for whoever pays; nothing here goes by them

  bool operator==(const Order&) const = default;
};

// Names a start in every event about it.
struct SlotRef {
  SandboxUid sandbox;
  int64_t start = 0;
  int64_t epoch = 0;  // 0 before a reservation
  OrgId org;
  ProjectId project;

  bool operator==(const SlotRef&) const = default;
};

// kNever: not yet. Within a slot they never decrease in this order.
struct Times {
  Instant reserved_at{};  // billing starts
  Instant started_at{};
  Instant stopping_at{};
  Instant released_at{};  // billing ends

  bool operator==(const Times&) const = default;
};

}  // namespace nodus::scheduler
