#include "nodus/scheduler/v1/events.pb.h"
#include "services/metering/adapters/codec/codec.hpp"
#include "services/metering/adapters/codec/fields.hpp"

namespace nodus::metering::codec {

namespace {

namespace pb = nodus::scheduler::v1;

Command from_proto(const pb::SlotOffered& m, FieldReader& in) {
  const auto& shape = m.shape();
  constexpr int64_t kCpuLimit = 1'000'000;           // far above any shape, far below an overflow
  constexpr int64_t kBytesLimit = int64_t{1} << 50;  // 1 PiB
  const auto within = [](int64_t value, int64_t limit) { return value >= 0 && value <= limit; };
  const bool sane = within(shape.cpu_milli(), kCpuLimit) && within(shape.memory_bytes(), kBytesLimit) &&
                    within(shape.disk_bytes(), kBytesLimit);
  if (!sane) in.fault("An offer for a shape that cannot be.");
  return JudgeOffer{in.slot(m.slot()),
                    m.sandbox_name(),
                    {shape.cpu_milli(), shape.memory_bytes(), shape.disk_bytes()},
                    in.optional_money(m.max_cost_usd()),
                    m.sharing() == "Own" ? m.machine_type() : "",
                    m.recovery()};
}

Command from_proto(const pb::OfferLapsed& m, FieldReader& in) {
  return EndOffer{in.slot(m.slot()), from_micros(m.at_us()), m.reason() == "Deleted"};
}

Command from_proto(const pb::SlotReserved& m, FieldReader& in) {
  return OpenCharge{in.slot(m.slot()), to_times(m.times())};
}

Command from_proto(const pb::SandboxStarted& m, FieldReader& in) {
  return NoteInstants{in.slot(m.slot()), to_times(m.times())};
}

Command from_proto(const pb::SlotStopping& m, FieldReader& in) {
  return NoteInstants{in.slot(m.slot()), to_times(m.times())};
}

Command from_proto(const pb::StopDeclined& m, FieldReader& in) {
  return DeclineStop{in.slot(m.slot())};
}

Command from_proto(const pb::MaxCostRaised& m, FieldReader& in) {
  return RaiseCap{in.slot(m.slot()), in.money(m.max_cost_usd()), from_micros(m.at_us())};
}

Command from_proto(const pb::SlotReleased& m, FieldReader& in) {
  CloseCharge close{in.slot(m.slot()), to_times(m.times()), std::nullopt,
                    m.stop_reason() == nodus::common::v1::STOP_REASON_DELETE};
  constexpr int64_t kBytesLimit = int64_t{1} << 50;  // 1 PiB: far above any disk, far below an overflow
  if (m.has_restore_point()) {
    close.saved_bytes = m.restore_point().size_bytes();
    if (*close.saved_bytes < 0 || *close.saved_bytes > kBytesLimit)
      in.fault("A restore point of a size that cannot be.");
  }
  return close;
}

Command from_proto(const pb::RestorePointReleased& m, FieldReader& in) {
  return DropStorage{in.slot(m.slot()), from_micros(m.at_us())};
}

template <class Message>
Result<std::optional<Command>> decoded(const std::string& payload) {
  const auto message = parse<Message>(payload);
  if (!message) return std::unexpected(message.error());
  FieldReader in;
  return in.finish(std::optional<Command>(from_proto(*message, in)));
}

}  // namespace

Result<std::optional<Command>> command_of(std::string_view type, const std::string& payload) {
  const auto is = [&](const auto* descriptor) { return type == descriptor->full_name(); };
  if (is(pb::SlotOffered::descriptor())) return decoded<pb::SlotOffered>(payload);
  if (is(pb::OfferLapsed::descriptor())) return decoded<pb::OfferLapsed>(payload);
  if (is(pb::SlotReserved::descriptor())) return decoded<pb::SlotReserved>(payload);
  if (is(pb::SandboxStarted::descriptor())) return decoded<pb::SandboxStarted>(payload);
  if (is(pb::SlotStopping::descriptor())) return decoded<pb::SlotStopping>(payload);
  if (is(pb::StopDeclined::descriptor())) return decoded<pb::StopDeclined>(payload);
  if (is(pb::MaxCostRaised::descriptor())) return decoded<pb::MaxCostRaised>(payload);
  if (is(pb::SlotReleased::descriptor())) return decoded<pb::SlotReleased>(payload);
  if (is(pb::RestorePointReleased::descriptor())) return decoded<pb::RestorePointReleased>(payload);
  if (is(pb::SlotPlanned::descriptor()) || is(pb::MachineRegistered::descriptor()) ||
      is(pb::MachineCapacityTaken::descriptor()) || is(pb::MachineCapacityFreed::descriptor()) ||
      is(pb::MachineLost::descriptor()))
    return std::nullopt;
  return fail(Code::kInvalid, "EventTypeUnknown",
              "Unknown event of the scheduler: " + std::string(type) + ".");
}

std::map<std::string, std::string> labels_of(std::string_view type, const std::string& payload) {
  if (type != pb::SlotOffered::descriptor()->full_name()) return {};
  const auto message = parse<pb::SlotOffered>(payload);
  if (!message) return {};
  return {message->labels().begin(), message->labels().end()};
}

}  // namespace nodus::metering::codec
