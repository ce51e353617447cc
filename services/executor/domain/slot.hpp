// The words of a node: a slot is one start of one Sandbox on this machine. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libs/base/clock.hpp"
#include "libs/base/ids.hpp"

namespace nodus::executor {

// One start of one Sandbox on this machine.
struct SlotKey {
  SandboxUid sandbox;
  int64_t epoch = 0;
  auto operator<=>(const SlotKey&) const = default;
  std::string text() const { return sandbox.str() + "-" + std::to_string(epoch); }  // also its directory
};

struct Shape {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
  bool operator==(const Shape&) const = default;
};

// A snapshot that was read back and matched (see common.proto).
struct RestorePoint {
  std::string object;  // organization/sandbox/start/epoch/n
  std::string sha256;
  int64_t size_bytes = 0;
  Instant taken_at;
  bool operator==(const RestorePoint&) const = default;
};

struct Activity {
  // The newest command start or end, or file request (GET too); open() counts as one. While busy: now, so
  // that whoever waits for the Sandbox to be idle starts anew.
  Instant last;
  bool busy = false;    // any process lives but the helper, or a file request is under way
  std::string because;  // while busy, what counts: "command sb-hello-12", "a process of its own"
};

enum class StopReason { kOther, kIdle, kDelete };

// What the scheduler asks for, of one slot.
struct Order {
  SlotKey key;
  int64_t start = 0;
  std::string org;
  std::string project;
  std::string name;
  std::string image;         // nodus/agent-tools
  std::string image_digest;  // sha256:…
  Shape shape;
  bool open_egress = false;
  bool ephemeral = false;  // nothing is saved at a stop
  std::string working_dir;
  std::optional<RestorePoint> restore_point;
  bool stop = false;
  StopReason stop_reason = StopReason::kOther;
  std::optional<Instant> idle_since;  // with kIdle: stop only if nothing used it since

  bool operator==(const Order&) const = default;
};

enum class Phase {
  kStarting,
  kRunning,
  kDeclined,  // running; the idle stop was declined
  kStopping,  // stopping, saving, tearing down
  kStopped,   // torn down; kept in reports until the scheduler forgets it
  kFailed,    // torn down
};

inline constexpr int kNoNetwork = 0;  // a network index that no slot has

// What is kept of a slot across restarts of nodusd.
struct SlotRecord {
  Order order;                     // as first heard; of a later order only `stop` and its reasons count
  int network_index = kNoNetwork;  // of the address pair; see adapters/linux/network.hpp
  Phase phase = Phase::kStarting;
  bool ran = false;      // it was Running once, so there may be something to save
  bool discard = false;  // save nothing: deleted, told to destroy, or it can never be saved
  std::string failure;   // StartFailed, Crashed; the slot ends as kFailed
  std::string message;   // of the failure, or what was not saved and why
  std::optional<RestorePoint> saved;

  bool operator==(const SlotRecord&) const = default;
};

}  // namespace nodus::executor
