// The machine below the slots: images, disks, networks, containers. The reconciler calls; adapters/linux is
// the real one. Thread-safe for different slots; one call at a time for a slot. Every call may be repeated
// after a crash at any point.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "services/executor/app/ports.hpp"

namespace nodus::executor {

// The records of the slots, on disk.
class SlotRecords {
 public:
  virtual ~SlotRecords() = default;
  virtual Result<void> create(const SlotRecord& record) = 0;  // durable when it returns
  // `durably` false: as far as the next crash of nodusd, not of the machine.
  virtual Result<void> save_state(const SlotRecord& record, bool durably) = 0;
  virtual Result<void> remove(const SlotKey& slot) = 0;  // with all that is left of the slot, the intent last
  virtual Result<std::vector<SlotRecord>> load() = 0;
};

// The machine below the slots: images, disks, networks, containers. Thread-safe for different slots; one call
// at a time for a slot. Every call may be repeated after a crash at any point.
class Host {
 public:
  virtual ~Host() = default;

  // Image and disk are there; returns the empty upper directory, ready for a restore. The network may still
  // be on its way: launch waits for it, and says what became of it.
  virtual Result<std::filesystem::path> prepare(const SlotRecord& slot) = 0;
  // After prepare (and restore): the container runs.
  virtual Result<void> launch(const SlotRecord& slot) = 0;
  // After launch or re-adoption, before commands are admitted: the CPU limit of the shape holds from here.
  // The runtime's own start, before any of the Sandbox's code runs, may be faster.
  virtual Result<void> limit_cpu(const SlotRecord& slot) = 0;
  // What the process side needs, of a launched slot.
  virtual Result<SlotView> view(const SlotRecord& slot) = 0;
  // Asks the runtime.
  virtual bool alive(const SlotKey& slot) = 0;
  // The container and all its processes are gone; its disk is still there.
  virtual Result<void> kill(const SlotKey& slot) = 0;
  // The upper directory of a killed slot, flushed; mounted again if the machine was restarted.
  virtual Result<std::filesystem::path> upper(const SlotRecord& slot) = 0;
  // Everything is gone but the record: container, network, mounts, loop device, cgroup, disk.
  virtual Result<void> teardown(const SlotRecord& slot) = 0;
  // Called when a launched or watched container ends, from a thread of the host.
  virtual void watch(const SlotKey& slot, std::function<void()> ended) = 0;
  // Forgets all that is watched; from its return on no `ended` runs.
  virtual void stop_watching() = 0;
  // An address pair that no slot uses; not one of the last used, so that old flows meet nobody.
  virtual Result<int> take_network_index(const std::vector<int>& used) = 0;
  // Once, at the start: removes what bears this node's label and belongs to none of these slots.
  virtual Result<void> sweep(const std::vector<SlotRecord>& known) = 0;
};

}  // namespace nodus::executor
