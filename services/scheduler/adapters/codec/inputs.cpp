#include <array>

#include "nodus/metering/v1/events.pb.h"
#include "services/scheduler/adapters/codec/codec.hpp"
#include "services/scheduler/adapters/codec/convert.hpp"

namespace nodus::scheduler::codec {
namespace {

namespace lifecycle = nodus::lifecycle::v1;
namespace metering = nodus::metering::v1;
using Input = Result<std::optional<SlotInput>>;

template <class... Messages>
bool is_one_of(const std::string& type) {
  return ((type == Messages::descriptor()->full_name()) || ...);
}

std::unexpected<Error> unknown(const std::string& type) {
  return fail(Code::kUnavailable, "UnknownEventType",
              "This release does not know " + type + "; replay the message after an upgrade.");
}

Input checked(SlotInput input) {
  // The uid names a stream and lands in rows: an empty or huge one is a fault of the sender.
  if (input.sandbox.empty() || input.sandbox.str().size() > 64)
    return fail(Code::kInvalid, "InvalidSandboxUid", "The message names no Sandbox.");
  return input;
}

Input plan(const lifecycle::StartRequested& m) {
  const Order order = get(m);
  if (order.start < 1 || order.org.empty() || order.shape.cpu_milli <= 0 || order.shape.memory_bytes <= 0)
    return fail(Code::kInvalid, "InvalidStart", "StartRequested lacks a start, an organization or a shape.");
  return checked({order.sandbox, PlanStart{order}});
}

}  // namespace

Input from_lifecycle(const std::string& type, const std::string& payload) {
  if (is_one_of<lifecycle::StartRequested>(type)) {
    auto m = parse<lifecycle::StartRequested>(type, payload);
    if (!m) return std::unexpected(m.error());
    return plan(*m);
  }
  if (is_one_of<lifecycle::StopRequested>(type)) {
    auto m = parse<lifecycle::StopRequested>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->uid()), Stop{m->start(), from_wire(m->reason()), at(m->idle_since_us())}});
  }
  if (is_one_of<lifecycle::DeleteRequested>(type)) {
    auto m = parse<lifecycle::DeleteRequested>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->uid()), Delete{}});
  }
  if (is_one_of<lifecycle::SandboxCreated, lifecycle::StopDeclined, lifecycle::MaxCostRaised,
                lifecycle::FundingRecorded, lifecycle::FundsChanged, lifecycle::SlotRecorded,
                lifecycle::RunningRecorded, lifecycle::ReleaseRecorded, lifecycle::ChargeRecorded,
                lifecycle::SandboxDeleted, lifecycle::ProcessAdmitted, lifecycle::ProcessEnded,
                lifecycle::ProcessNumbered, lifecycle::NameTaken, lifecycle::NameFreed>(type))
    return std::nullopt;
  return unknown(type);
}

Input from_metering(const std::string& type, const std::string& payload) {
  if (is_one_of<metering::StartFunded>(type)) {
    auto m = parse<metering::StartFunded>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->slot().sandbox_uid()), Fund{m->slot().start()}});
  }
  if (is_one_of<metering::StartRefused>(type)) {
    auto m = parse<metering::StartRefused>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->slot().sandbox_uid()), Refuse{m->slot().start()}});
  }
  if (is_one_of<metering::OfferReleased, metering::ChargeOpened, metering::ChargeLine, metering::ChargeClosed,
                metering::StopOrdered, metering::CreditPosted, metering::HoldPlaced, metering::HoldFreed,
                metering::AccrualStarted, metering::AccrualEnded, metering::FundsChanged>(type))
    return std::nullopt;
  return unknown(type);
}

}  // namespace nodus::scheduler::codec
