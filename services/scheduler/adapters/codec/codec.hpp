// Protobuf ⇄ domain. Events and states of the two aggregates; what messages of other services mean here; the
// node channel's messages. No Protobuf header is needed to use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/eventlog/event_log.hpp"
#include "services/scheduler/app/ports.hpp"
#include "services/scheduler/domain/machine.hpp"
#include "services/scheduler/domain/slot.hpp"

namespace nodus::scheduler {

struct SlotCodec {
  static eventlog::Event encode(const SlotEvent& event);
  static Result<SlotEvent> decode(const std::string& type, const std::string& payload);
  static std::string encode_state(const SlotState& state);
  static Result<SlotState> decode_state(const std::string& bytes);
};

struct MachineCodec {
  static eventlog::Event encode(const MachineEvent& event);
  static Result<MachineEvent> decode(const std::string& type, const std::string& payload);
  static std::string encode_state(const MachineState& state);
  static Result<MachineState> decode_state(const std::string& bytes);
};

namespace codec {

// What a message of topic "lifecycle" or "metering" means for a slot; nullopt: it does not concern the
// scheduler. Types that this release does not know are an error, so that they are parked rather than skipped.
struct SlotInput {
  SandboxUid sandbox;
  SlotCommand command;
};
Result<std::optional<SlotInput>> from_lifecycle(const std::string& type, const std::string& payload);
// An organization's first purchase of credits. nullopt: it is another event.
struct Purchase {
  OrgId org;
  Instant at{};
};
Result<std::optional<Purchase>> first_purchase(const std::string& type, const std::string& payload);
Result<std::optional<SlotInput>> from_metering(const std::string& type, const std::string& payload);

// The node channel. from_sync checks every field: BadRequest when it is not the message, Invalid with causes
// when a value is out of range.
Result<NodeSync> from_sync(std::string_view body);
std::string to_desired(const SlotState& slot);  // a serialised nodus.node.v1.DesiredSlot; the slot is live
// `lost`: whoever asks was declared lost, and hears of no slot.
std::string to_sync_answer(const MachineRow& machine, bool lost, Micros lease, Micros poll);

}  // namespace codec
}  // namespace nodus::scheduler
