#include "services/lifecycle/adapters/inputs.hpp"

#include <set>
#include <string_view>

#include "nodus/metering/v1/events.pb.h"
#include "nodus/node/v1/channel.pb.h"
#include "nodus/scheduler/v1/events.pb.h"
#include "services/lifecycle/app/works.hpp"

namespace nodus::lifecycle {

namespace {

namespace sched = nodus::scheduler::v1;
namespace meter = nodus::metering::v1;

using MaybeWork = Result<std::optional<eventlog::Work>>;

template <class M>
Result<M> parse(const bus::Message& message) {
  M out;
  if (!out.ParseFromString(message.payload))
    return fail(Code::kInternal, "UndecodableEvent", "A " + message.type + " does not parse.");
  return out;
}

// The change that a message of type M makes to its Sandbox, if the message is one.
template <class M, class Map>
bool handle(const bus::Message& message, Instant now, MaybeWork& out, Map map) {
  if (message.type != M::descriptor()->full_name()) return false;
  auto event = parse<M>(message);
  if (!event)
    out = std::unexpected(std::move(event.error()));
  else
    out = change_sandbox(SandboxUid(event->slot().sandbox_uid()), map(*event),
                         SandboxContext{now, std::nullopt});
  return true;
}

std::optional<RestorePoint> restore_point_of(const sched::SlotReleased& m) {
  if (!m.has_restore_point()) return std::nullopt;
  const auto& p = m.restore_point();
  return RestorePoint{p.object(), p.sha256(), p.size_bytes(), from_micros(p.taken_at_us())};
}

MaybeWork unknown(const bus::Message& message) {
  return fail(Code::kInternal, "UnknownEventType",
              "This release does not know the event type " + message.type + ".");
}

std::optional<Rate> rate_of(const std::string& usd) {
  const auto amount = Money::parse(usd);
  if (!amount) return std::nullopt;
  return Rate::from_pico_per_second(amount->pico());
}

}  // namespace

MaybeWork from_scheduler(const bus::Message& message, Instant now) {
  static const std::set<std::string_view> kNotForUs = {
      "nodus.scheduler.v1.SlotPlanned",          "nodus.scheduler.v1.SlotOffered",
      "nodus.scheduler.v1.SlotStopping",         "nodus.scheduler.v1.MachineRegistered",
      "nodus.scheduler.v1.MachineCapacityTaken", "nodus.scheduler.v1.MachineCapacityFreed",
      "nodus.scheduler.v1.MachineLost",          "nodus.scheduler.v1.MaxCostRaised",
      "nodus.scheduler.v1.RestorePointReleased"};
  if (kNotForUs.contains(message.type) || !message.stream.starts_with("slot/")) return std::nullopt;
  MaybeWork out = unknown(message);
  (void)(handle<sched::OfferLapsed>(message, now, out,
                                    [](const auto& m) {
                                      return RecordLapse{m.slot().start(), m.reason(),
                                                         static_cast<StopReason>(m.stop_reason())};
                                    }) ||
         handle<sched::SlotReserved>(message, now, out,
                                     [](const auto& m) {
                                       return RecordSlot{{m.slot().start(), m.slot().epoch(), m.machine(),
                                                          m.data_path(),
                                                          from_micros(m.times().reserved_at_us())}};
                                     }) ||
         handle<sched::SandboxStarted>(message, now, out,
                                       [](const auto& m) {
                                         return RecordRunning{{m.slot().start(), m.runtime(),
                                                               from_micros(m.times().started_at_us())}};
                                       }) ||
         handle<sched::StopDeclined>(message, now, out,
                                     [](const auto& m) {
                                       return RecordStopDeclined{
                                           {m.slot().start(), from_micros(m.last_activity_at_us())}};
                                     }) ||
         handle<sched::SlotReleased>(message, now, out, [](const auto& m) {
           return RecordRelease{{m.slot().start(), static_cast<StopReason>(m.stop_reason()), m.failure(),
                                 m.message(), restore_point_of(m), from_micros(m.times().released_at_us())}};
         }));
  return out;
}

MaybeWork from_metering(const bus::Message& message, Instant now) {
  static const std::set<std::string_view> kNotForUs = {
      "nodus.metering.v1.OfferReleased", "nodus.metering.v1.ChargeOpened", "nodus.metering.v1.InstantsNoted",
      "nodus.metering.v1.StopDeclined",  "nodus.metering.v1.CapRaised",    "nodus.metering.v1.StorageOpened",
      "nodus.metering.v1.StorageMetered"};
  if (kNotForUs.contains(message.type)) return std::nullopt;
  if (message.type == meter::FundsChanged::descriptor()->full_name()) {
    auto event = parse<meter::FundsChanged>(message);
    if (!event) return std::unexpected(std::move(event.error()));
    return eventlog::Work{
        .key = "",
        .input_hash = "",
        .streams = {},
        .decide = [org = event->org(), at = event->at_us()](eventlog::Unit& unit) -> Result<std::string> {
          unit.project([org, at](pg::Tx& tx) {
            tx.exec_params0(
                "INSERT INTO funds (org, changed_us) VALUES ($1, $2) ON CONFLICT (org) "
                "DO UPDATE SET changed_us = greatest(funds.changed_us, excluded.changed_us)",
                org, at);
          });
          return "";
        }};
  }
  if (message.stream.starts_with("account/") || message.stream.starts_with("budget/"))
    return std::nullopt;  // sums are metering's own
  MaybeWork out = unknown(message);
  (void)(handle<meter::StartFunded>(
             message, now, out,
             [](const auto& m) {
               return RecordFunding{
                   {m.slot().start(), rate_of(m.rate_usd_per_s()), {}, from_micros(m.at_us())}};
             }) ||
         handle<meter::StartRefused>(
             message, now, out,
             [](const auto& m) {
               const auto at = from_micros(m.at_us());
               return RecordFunding{{m.slot().start(), std::nullopt,
                                     Refusal{m.reason(), m.limit(), m.hold_usd(), m.available_usd(), at},
                                     at}};
             }) ||
         handle<meter::StopOrdered>(message, now, out,
                                    [](const auto& m) {
                                      return RequestStop{static_cast<StopReason>(m.reason()),
                                                         m.slot().start()};
                                    }) ||
         handle<meter::CapReached>(
             message, now, out,
             [](const auto& m) { return RecordPaidUntil{{m.slot().start(), m.at_s()}}; }) ||
         handle<meter::PaidUntil>(
             message, now, out,
             [](const auto& m) { return RecordPaidUntil{{m.slot().start(), m.at_s()}}; }) ||
         handle<meter::ChargeClosed>(message, now, out, [](const auto& m) {
           return RecordCharge{{m.slot().start(), Money::parse(m.sandbox_total_usd()).value_or(Money())}};
         }));
  return out;
}

Result<ProcessReportBatch> from_process_reports(const std::string& body) {
  constexpr int kMaxReports = 1024;
  nodus::node::v1::ProcessReports reports;
  if (!reports.ParseFromString(body) || reports.reports_size() > kMaxReports)
    return fail(Code::kBadRequest, "BadRequest",
                "The body is not a ProcessReports of at most 1,024 reports.");
  ProcessReportBatch batch{reports.machine(), {}};
  for (const auto& r : reports.reports()) {
    const auto started =
        r.started_at_us() == 0 ? std::nullopt : std::optional(from_micros(r.started_at_us()));
    ProcessEnded ended{.reason = r.reason(),
                       .exit_code = r.exit_code(),
                       .message = r.message(),
                       .started_at = started,
                       .ended_at = from_micros(r.ended_at_us()),
                       .stdout_bytes = r.stdout_bytes(),
                       .stderr_bytes = r.stderr_bytes(),
                       .never_reached = r.never_reached()};
    batch.works.push_back(
        end_process(ProcessUid(r.process_uid()), {reports.machine(), r.epoch(), std::move(ended)}));
  }
  return batch;
}

}  // namespace nodus::lifecycle
