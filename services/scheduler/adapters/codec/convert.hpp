// Pieces that several messages share, Protobuf ⇄ domain. Internal to the codec.
#pragma once

#include "nodus/common/v1/common.pb.h"
#include "nodus/lifecycle/v1/events.pb.h"
#include "nodus/scheduler/v1/events.pb.h"
#include "services/scheduler/domain/types.hpp"

namespace nodus::scheduler::codec {

// Zero on the wire is "never", which is also the zero Instant.
inline int64_t us(Instant at) {
  return to_micros(at);
}
inline Instant at(int64_t micros) {
  return from_micros(micros);
}

void put(const Shape& from, common::v1::Shape* to);
Shape get(const common::v1::Shape& from);
void put(const RestorePoint& from, common::v1::RestorePoint* to);
RestorePoint get(const common::v1::RestorePoint& from);
void put(const SlotRef& from, scheduler::v1::SlotRef* to);
SlotRef get(const scheduler::v1::SlotRef& from);
void put(const Times& from, scheduler::v1::Times* to);
Times get(const scheduler::v1::Times& from);
void put(const Order& from, lifecycle::v1::StartRequested* to);
Order get(const lifecycle::v1::StartRequested& from);  // what the scheduler needs of it

common::v1::StopReason to_wire(StopReason reason);
StopReason from_wire(common::v1::StopReason reason);

template <class Message>
Result<Message> parse(std::string_view type, std::string_view bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(Code::kInvalid, "UndecodableMessage", std::string(type) + " is not a valid message.");
  return message;
}

}  // namespace nodus::scheduler::codec
