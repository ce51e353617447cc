// What a user asked for, with defaults filled in. Source: spec 001, "Create a Sandbox".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "libs/base/clock.hpp"
#include "libs/money/money.hpp"

namespace nodus::lifecycle {

struct Shape {
  int64_t cpu_milli = 1000;
  int64_t memory_bytes = int64_t{1} << 30;
  int64_t disk_bytes = int64_t{10} << 30;

  bool operator==(const Shape&) const = default;
};

enum class Egress { kDeny, kOpen };
enum class OnIdle { kStop, kDelete };
enum class Continuity { kSnapshotted, kEphemeral };

struct SandboxSpec {
  std::string image;
  Shape shape;
  Egress egress = Egress::kDeny;
  Micros idle_timeout{std::chrono::minutes(5)};  // 0: never idle
  OnIdle on_idle = OnIdle::kStop;
  Micros max_lifetime{std::chrono::hours(24)};
  Continuity continuity = Continuity::kSnapshotted;
  std::string working_dir = "/workspace";
  std::optional<Money> max_cost;
  // Of each variable a keyed digest of its value, never the value: enough to tell whether two specs are the
  // same. The values are sealed, beside the log.
  std::map<std::string, std::string> env;

  bool operator==(const SandboxSpec&) const = default;
};

}  // namespace nodus::lifecycle
