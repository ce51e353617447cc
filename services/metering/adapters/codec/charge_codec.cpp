#include "nodus/metering/v1/events.pb.h"
#include "services/metering/adapters/codec/codec.hpp"
#include "services/metering/adapters/codec/fields.hpp"

namespace nodus::metering::codec {

namespace {

namespace pb = nodus::metering::v1;
using nodus::common::v1::StopReason;

template <class Message>
Encoded encoded(const Message& message) {
  return {Message::descriptor()->full_name(), message.SerializeAsString()};
}

void put_prices(const PricesUsed& from, pb::PricesUsed* to) {
  to->set_cpu_per_vcpu_s_usd(from.cpu_per_vcpu_s.to_decimal());
  to->set_memory_per_gib_s_usd(from.memory_per_gib_s.to_decimal());
  to->set_disk_per_gib_s_usd(from.disk_per_gib_s.to_decimal());
  to->set_machine_type(from.machine_type);
  to->set_machine_per_s_usd(from.machine_per_s.to_decimal());
  to->set_cpu_milli(from.shape.cpu_milli);
  to->set_memory_bytes(from.shape.memory_bytes);
  to->set_disk_bytes(from.shape.disk_bytes);
}

PricesUsed prices_of(const pb::PricesUsed& from, FieldReader& in) {
  return {in.money(from.cpu_per_vcpu_s_usd()), in.money(from.memory_per_gib_s_usd()),
          in.money(from.disk_per_gib_s_usd()), from.machine_type(),
          in.money(from.machine_per_s_usd()),  {from.cpu_milli(), from.memory_bytes(), from.disk_bytes()}};
}

StopReason to_wire(charge::StopReason reason) {
  switch (reason) {
    case charge::StopReason::kInsufficientCredits:
      return StopReason::STOP_REASON_INSUFFICIENT_CREDITS;
    case charge::StopReason::kMaxCostReached:
      return StopReason::STOP_REASON_MAX_COST_REACHED;
    case charge::StopReason::kBudgetExceeded:
      return StopReason::STOP_REASON_BUDGET_EXCEEDED;
  }
  return StopReason::STOP_REASON_UNSPECIFIED;
}

Encoded to_proto(const charge::StartFunded& e) {
  pb::StartFunded m;
  put(e.slot, m.mutable_slot());
  m.set_sandbox_name(e.sandbox_name);
  m.set_price_version(e.price_version);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_hold_usd(e.hold.to_decimal());
  if (e.max_cost) m.set_max_cost_usd(e.max_cost->to_decimal());
  m.set_at_us(to_micros(e.at));
  if (e.prices) put_prices(*e.prices, m.mutable_prices());
  m.set_recovery(e.recovery);
  m.set_budgeted(e.budgeted);
  return encoded(m);
}

Encoded to_proto(const charge::StartRefused& e) {
  pb::StartRefused m;
  put(e.slot, m.mutable_slot());
  m.set_reason(e.reason);
  m.set_limit(e.limit);
  m.set_hold_usd(e.hold.to_decimal());
  m.set_available_usd(e.available.to_decimal());
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

Encoded to_proto(const charge::OfferReleased& e) {
  pb::OfferReleased m;
  put(e.slot, m.mutable_slot());
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

Encoded to_proto(const charge::ChargeOpened& e) {
  pb::ChargeOpened m;
  put(e.slot, m.mutable_slot());
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_reserved_at_us(to_micros(e.reserved_at));
  m.set_reserved_at_s(e.from_s);
  m.set_cap_at_s(e.cap_s.value_or(0));
  m.set_era(e.era);
  m.set_budget_era(e.budget_era);
  return encoded(m);
}

Encoded to_proto(const charge::InstantsNoted& e) {
  pb::InstantsNoted m;
  put(e.slot, m.mutable_slot());
  put(e.times, m.mutable_times());
  return encoded(m);
}

Encoded to_proto(const charge::CapReached& e) {
  pb::CapReached m;
  put(e.slot, m.mutable_slot());
  m.set_at_s(e.at_s);
  return encoded(m);
}

Encoded to_proto(const charge::CapRaised& e) {
  pb::CapRaised m;
  put(e.slot, m.mutable_slot());
  m.set_max_cost_usd(e.max_cost.to_decimal());
  m.set_cap_at_s(e.cap_s.value_or(0));
  return encoded(m);
}

Encoded to_proto(const charge::PaidUntil& e) {
  pb::PaidUntil m;
  put(e.slot, m.mutable_slot());
  m.set_at_s(e.at_s);
  return encoded(m);
}

Encoded to_proto(const charge::StopOrdered& e) {
  pb::StopOrdered m;
  put(e.slot, m.mutable_slot());
  m.set_reason(to_wire(e.reason));
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

Encoded to_proto(const charge::StopDeclined& e) {
  pb::StopDeclined m;
  put(e.slot, m.mutable_slot());
  m.set_stopping_at_us(to_micros(e.stopping));
  return encoded(m);
}

Encoded to_proto(const charge::ChargeClosed& e) {
  pb::ChargeClosed m;
  put(e.slot, m.mutable_slot());
  m.set_rate_usd_per_s(e.rate.to_decimal());
  for (const auto& line : e.lines) {
    auto* to = m.add_lines();
    to->set_kind(std::string(to_string(line.kind)));
    to->set_from_s(line.from_s);
    to->set_to_s(line.to_s);
    to->set_amount_usd(line.amount.to_decimal());
    to->set_waived(line.waived);
    to->set_waived_reason(std::string(to_string(line.cause)));
  }
  m.set_amount_usd(e.amount.to_decimal());
  m.set_sandbox_total_usd(e.sandbox_total.to_decimal());
  m.set_to_s(e.to_s);
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

Encoded to_proto(const charge::StorageOpened& e) {
  pb::StorageOpened m;
  put(e.slot, m.mutable_slot());
  m.set_sandbox_name(e.sandbox_name);
  m.set_size_bytes(e.size_bytes);
  m.set_price_version(e.price_version);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_from_s(e.from_s);
  m.set_era(e.era);
  m.set_budget_era(e.budget_era);
  m.set_waived_reason(std::string(to_string(e.waived)));
  return encoded(m);
}

Encoded to_proto(const charge::StorageMetered& e) {
  pb::StorageMetered m;
  put(e.slot, m.mutable_slot());
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_from_s(e.from_s);
  m.set_to_s(e.to_s);
  m.set_amount_usd(e.amount.to_decimal());
  m.set_waived_reason(std::string(to_string(e.waived)));
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

charge::Event from_proto(const pb::StartFunded& m, FieldReader& in) {
  charge::StartFunded e{in.slot(m.slot()),      m.sandbox_name(),
                        m.price_version(),      in.rate(m.rate_usd_per_s()),
                        in.money(m.hold_usd()), in.optional_money(m.max_cost_usd()),
                        from_micros(m.at_us()), std::nullopt,
                        m.recovery(),           m.budgeted()};
  if (m.has_prices()) e.prices = prices_of(m.prices(), in);
  return e;
}

charge::Event from_proto(const pb::StartRefused& m, FieldReader& in) {
  return charge::StartRefused{
      in.slot(m.slot()),     m.reason(), m.limit(), in.money(m.hold_usd()), in.money(m.available_usd()),
      from_micros(m.at_us())};
}

charge::Event from_proto(const pb::OfferReleased& m, FieldReader& in) {
  return charge::OfferReleased{in.slot(m.slot()), from_micros(m.at_us())};
}

charge::Event from_proto(const pb::ChargeOpened& m, FieldReader& in) {
  charge::ChargeOpened e{in.slot(m.slot()), in.rate(m.rate_usd_per_s()), from_micros(m.reserved_at_us()),
                         m.reserved_at_s()};
  if (m.cap_at_s() != 0) e.cap_s = m.cap_at_s();
  e.era = m.era();
  e.budget_era = m.budget_era();
  return e;
}

charge::Event from_proto(const pb::InstantsNoted& m, FieldReader& in) {
  return charge::InstantsNoted{in.slot(m.slot()), to_times(m.times())};
}

charge::Event from_proto(const pb::CapReached& m, FieldReader& in) {
  return charge::CapReached{in.slot(m.slot()), m.at_s()};
}

charge::Event from_proto(const pb::CapRaised& m, FieldReader& in) {
  charge::CapRaised e{in.slot(m.slot()), in.money(m.max_cost_usd()), std::nullopt};
  if (m.cap_at_s() != 0) e.cap_s = m.cap_at_s();
  return e;
}

charge::Event from_proto(const pb::PaidUntil& m, FieldReader& in) {
  return charge::PaidUntil{in.slot(m.slot()), m.at_s()};
}

charge::Event from_proto(const pb::StopOrdered& m, FieldReader& in) {
  charge::StopOrdered e{in.slot(m.slot()), charge::StopReason::kInsufficientCredits, from_micros(m.at_us())};
  for (const auto reason : {charge::StopReason::kInsufficientCredits, charge::StopReason::kMaxCostReached,
                            charge::StopReason::kBudgetExceeded}) {
    if (to_wire(reason) != m.reason()) continue;
    e.reason = reason;
    return e;
  }
  in.fault("A stop order for a reason that is not money's.");
  return e;
}

charge::Event from_proto(const pb::StopDeclined& m, FieldReader& in) {
  return charge::StopDeclined{in.slot(m.slot()), from_micros(m.stopping_at_us())};
}

LineKind kind_of(const std::string& text, FieldReader& in) {
  for (const auto kind : {LineKind::kStarting, LineKind::kRunning, LineKind::kStopping})
    if (text == to_string(kind)) return kind;
  in.fault("A bill line of an unknown kind.");
  return LineKind::kRunning;
}

charge::Event from_proto(const pb::ChargeClosed& m, FieldReader& in) {
  charge::ChargeClosed e{.slot = in.slot(m.slot()), .rate = in.rate(m.rate_usd_per_s())};
  for (const auto& line : m.lines())
    e.lines.push_back({kind_of(line.kind(), in), line.from_s(), line.to_s(), in.money(line.amount_usd()),
                       line.waived(), in.cause(line.waived_reason())});
  e.amount = in.money(m.amount_usd());
  e.sandbox_total = in.money(m.sandbox_total_usd());
  e.to_s = m.to_s();
  e.at = from_micros(m.at_us());
  return e;
}

charge::Event from_proto(const pb::StorageOpened& m, FieldReader& in) {
  return charge::StorageOpened{
      in.slot(m.slot()),           m.sandbox_name(), m.size_bytes(), m.price_version(),
      in.rate(m.rate_usd_per_s()), m.from_s(),       m.era(),        m.budget_era(),
      in.cause(m.waived_reason())};
}

charge::Event from_proto(const pb::StorageMetered& m, FieldReader& in) {
  return charge::StorageMetered{in.slot(m.slot()),
                                in.rate(m.rate_usd_per_s()),
                                m.from_s(),
                                m.to_s(),
                                in.money(m.amount_usd()),
                                in.cause(m.waived_reason()),
                                from_micros(m.at_us())};
}

template <class Message>
Result<charge::Event> decoded(const std::string& payload) {
  const auto message = parse<Message>(payload);
  if (!message) return std::unexpected(message.error());
  FieldReader in;
  return in.finish(from_proto(*message, in));
}

}  // namespace

Encoded encode(const charge::Event& event) {
  return std::visit([](const auto& e) { return to_proto(e); }, event);
}

Result<charge::Event> decode_charge(std::string_view type, const std::string& payload) {
  const auto is = [&](const auto* descriptor) { return type == descriptor->full_name(); };
  if (is(pb::StartFunded::descriptor())) return decoded<pb::StartFunded>(payload);
  if (is(pb::StartRefused::descriptor())) return decoded<pb::StartRefused>(payload);
  if (is(pb::OfferReleased::descriptor())) return decoded<pb::OfferReleased>(payload);
  if (is(pb::ChargeOpened::descriptor())) return decoded<pb::ChargeOpened>(payload);
  if (is(pb::InstantsNoted::descriptor())) return decoded<pb::InstantsNoted>(payload);
  if (is(pb::CapReached::descriptor())) return decoded<pb::CapReached>(payload);
  if (is(pb::CapRaised::descriptor())) return decoded<pb::CapRaised>(payload);
  if (is(pb::PaidUntil::descriptor())) return decoded<pb::PaidUntil>(payload);
  if (is(pb::StopOrdered::descriptor())) return decoded<pb::StopOrdered>(payload);
  if (is(pb::StopDeclined::descriptor())) return decoded<pb::StopDeclined>(payload);
  if (is(pb::ChargeClosed::descriptor())) return decoded<pb::ChargeClosed>(payload);
  if (is(pb::StorageOpened::descriptor())) return decoded<pb::StorageOpened>(payload);
  if (is(pb::StorageMetered::descriptor())) return decoded<pb::StorageMetered>(payload);
  return fail(Code::kInvalid, "EventTypeUnknown", "Unknown event of a charge: " + std::string(type) + ".");
}

}  // namespace nodus::metering::codec
