#include <set>

#include "nodus/metering/v1/events.pb.h"
#include "services/scheduler/adapters/codec/codec.hpp"
#include "services/scheduler/adapters/codec/convert.hpp"

namespace nodus::scheduler::codec {
namespace {

namespace lifecycle = nodus::lifecycle::v1;
namespace metering = nodus::metering::v1;
using Input = Result<std::optional<SlotInput>>;

// Events that do not concern the scheduler, each by name: a type in neither list is parked.
const std::set<std::string_view> kNotOfLifecycle = {
    "nodus.lifecycle.v1.SandboxCreated",    "nodus.lifecycle.v1.StopDeclined",
    "nodus.lifecycle.v1.FundingRecorded",   "nodus.lifecycle.v1.StartDeferred",
    "nodus.lifecycle.v1.PaidUntilRecorded", "nodus.lifecycle.v1.WakeRecorded",
    "nodus.lifecycle.v1.SlotRecorded",      "nodus.lifecycle.v1.RunningRecorded",
    "nodus.lifecycle.v1.ReleaseRecorded",   "nodus.lifecycle.v1.ChargeRecorded",
    "nodus.lifecycle.v1.SandboxDeleted",    "nodus.lifecycle.v1.ProcessAdmitted",
    "nodus.lifecycle.v1.ProcessEnded",      "nodus.lifecycle.v1.ProcessNumbered",
    "nodus.lifecycle.v1.NameTaken",         "nodus.lifecycle.v1.StopWished",
    "nodus.lifecycle.v1.LifetimeWarned",    "nodus.lifecycle.v1.ActivityNoted",
    "nodus.lifecycle.v1.ProcessRepeated",   "nodus.lifecycle.v1.MetadataChanged",
};
const std::set<std::string_view> kNotOfMetering = {
    "nodus.metering.v1.OfferReleased",    "nodus.metering.v1.ChargeOpened",
    "nodus.metering.v1.ChargeClosed",     "nodus.metering.v1.StopOrdered",
    "nodus.metering.v1.CreditPosted",     "nodus.metering.v1.HoldPlaced",
    "nodus.metering.v1.HoldFreed",        "nodus.metering.v1.AccrualStarted",
    "nodus.metering.v1.AccrualEnded",     "nodus.metering.v1.FundsChanged",
    "nodus.metering.v1.InstantsNoted",    "nodus.metering.v1.CapReached",
    "nodus.metering.v1.AccrualFlattened", "nodus.metering.v1.BalanceExhausted",
    "nodus.metering.v1.RefusalNoted",     "nodus.metering.v1.StopDeclined",
    "nodus.metering.v1.PaidUntil",        "nodus.metering.v1.CreditExpired",
    "nodus.metering.v1.FirstPurchase",    "nodus.metering.v1.CapRaised",
    "nodus.metering.v1.LinesFlattened",   "nodus.metering.v1.BudgetSet",
    "nodus.metering.v1.BudgetDeleted",    "nodus.metering.v1.BudgetHoldPlaced",
    "nodus.metering.v1.BudgetHoldFreed",  "nodus.metering.v1.SpendStarted",
    "nodus.metering.v1.SpendFlattened",   "nodus.metering.v1.SpendEnded",
    "nodus.metering.v1.MonthBegan",       "nodus.metering.v1.SpendCutOff",
    "nodus.metering.v1.BudgetExhausted",  "nodus.metering.v1.BudgetThresholdReached",
    "nodus.metering.v1.BudgetRecovered",  "nodus.metering.v1.BudgetRefusalNoted",
    "nodus.metering.v1.StorageOpened",    "nodus.metering.v1.StorageMetered",
};

template <class Message>
bool is(const std::string& type) {
  return type == Message::descriptor()->full_name();
}

std::unexpected<Error> unknown(const std::string& type) {
  return fail(Code::kInternal, "UnknownEventType",
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
  if (is<lifecycle::StartRequested>(type)) {
    auto m = parse<lifecycle::StartRequested>(type, payload);
    if (!m) return std::unexpected(m.error());
    return plan(*m);
  }
  if (is<lifecycle::StopRequested>(type)) {
    auto m = parse<lifecycle::StopRequested>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->uid()), Stop{m->start(), from_wire(m->reason()), at(m->idle_since_us())}});
  }
  if (is<lifecycle::MaxCostRaised>(type)) {
    auto m = parse<lifecycle::MaxCostRaised>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->uid()), RaiseCap{m->max_cost_usd()}});
  }
  if (is<lifecycle::DeleteRequested>(type)) {
    auto m = parse<lifecycle::DeleteRequested>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->uid()), Delete{}});
  }
  if (kNotOfLifecycle.contains(type)) return std::nullopt;
  return unknown(type);
}

Result<std::optional<Purchase>> first_purchase(const std::string& type, const std::string& payload) {
  if (!is<metering::FirstPurchase>(type)) return std::nullopt;
  auto m = parse<metering::FirstPurchase>(type, payload);
  if (!m) return std::unexpected(m.error());
  if (m->org().empty() || m->org().size() > 128)
    return fail(Code::kInvalid, "InvalidStart", "FirstPurchase names no organization.");
  return Purchase{OrgId(m->org()), at(m->at_us())};
}

Input from_metering(const std::string& type, const std::string& payload) {
  if (is<metering::StartFunded>(type)) {
    auto m = parse<metering::StartFunded>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->slot().sandbox_uid()), Fund{m->slot().start()}});
  }
  if (is<metering::StartRefused>(type)) {
    auto m = parse<metering::StartRefused>(type, payload);
    if (!m) return std::unexpected(m.error());
    return checked({SandboxUid(m->slot().sandbox_uid()), Refuse{m->slot().start()}});
  }
  if (kNotOfMetering.contains(type)) return std::nullopt;
  return unknown(type);
}

}  // namespace nodus::scheduler::codec
