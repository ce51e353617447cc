#include "nodus/metering/v1/events.pb.h"
#include "services/metering/adapters/codec/codec.hpp"
#include "services/metering/adapters/codec/fields.hpp"

namespace nodus::metering::codec {

namespace {

namespace pb = nodus::metering::v1;
using account::LineEnd;

template <class Message>
Encoded encoded(const Message& message) {
  return {Message::descriptor()->full_name(), message.SerializeAsString()};
}

// Most events of an account name the start that caused them.
template <class Message, class Event>
Message about_start(const Event& e) {
  Message m;
  m.set_org(e.org.str());
  m.set_sandbox_uid(e.uid.str());
  m.set_start(e.start);
  m.set_hold_usd(e.hold.to_decimal());
  return m;
}

std::string to_text(LineEnd line) {
  switch (line) {
    case LineEnd::kLive:
      return "Live";
    case LineEnd::kCapped:
      return "Capped";
    case LineEnd::kExhausted:
      return "Exhausted";
  }
  return "";
}

LineEnd line_of(const std::string& text, FieldReader& in) {
  for (const auto line : {LineEnd::kLive, LineEnd::kCapped, LineEnd::kExhausted})
    if (text == to_text(line)) return line;
  in.fault("An accrual whose line ended in an unknown way.");
  return LineEnd::kLive;
}

Encoded to_proto(const account::CreditPosted& e) {
  pb::CreditPosted m;
  m.set_org(e.org.str());
  m.set_id(e.id);
  m.set_kind(e.kind);
  m.set_amount_usd(e.amount.to_decimal());
  m.set_author(e.author);
  m.set_at_us(to_micros(e.at));
  if (e.expires_s) m.set_expires_at_s(*e.expires_s);
  m.set_priority(e.priority);
  if (e.used) m.set_used_usd(e.used->to_decimal());
  if (e.uncovered != Money()) m.set_uncovered_usd(e.uncovered.to_decimal());
  return encoded(m);
}

Encoded to_proto(const account::CreditExpired& e) {
  pb::CreditExpired m;
  m.set_org(e.org.str());
  m.set_id(e.id);
  m.set_amount_usd(e.amount.to_decimal());
  m.set_at_s(e.at_s);
  m.set_used_usd(e.used.to_decimal());
  m.set_step(e.step);
  return encoded(m);
}

Encoded to_proto(const account::FirstPurchase& e) {
  pb::FirstPurchase m;
  m.set_org(e.org.str());
  m.set_id(e.id);
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

Encoded to_proto(const account::HoldPlaced& e) {
  auto m = about_start<pb::HoldPlaced>(e);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  return encoded(m);
}

Encoded to_proto(const account::HoldFreed& e) {
  return encoded(about_start<pb::HoldFreed>(e));
}

Encoded to_proto(const account::AccrualStarted& e) {
  auto m = about_start<pb::AccrualStarted>(e);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_from_s(e.from_s);
  m.set_storage(e.storage);
  return encoded(m);
}

Encoded to_proto(const account::AccrualFlattened& e) {
  auto m = about_start<pb::AccrualFlattened>(e);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_from_s(e.from_s);
  m.set_to_s(e.to_s);
  return encoded(m);
}

Encoded to_proto(const account::LinesFlattened& e) {
  pb::LinesFlattened m;
  m.set_org(e.org.str());
  m.set_project(e.project.str());
  m.set_to_s(e.to_s);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_base_usd(e.base.to_decimal());
  m.set_hold_usd(e.hold.to_decimal());
  m.set_lines(e.lines);
  return encoded(m);
}

Encoded to_proto(const account::BalanceExhausted& e) {
  pb::BalanceExhausted m;
  m.set_org(e.org.str());
  m.set_at_s(e.at_s);
  return encoded(m);
}

Encoded to_proto(const account::AccrualEnded& e) {
  auto m = about_start<pb::AccrualEnded>(e);
  m.set_to_s(e.to_s);
  m.set_amount_usd(e.amount.to_decimal());
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_from_s(e.from_s);
  m.set_line(to_text(e.line));
  m.set_flat_at_s(e.flat_s);
  m.set_era(e.era);
  return encoded(m);
}

Encoded to_proto(const account::RefusalNoted& e) {
  pb::RefusalNoted m;
  m.set_org(e.org.str());
  m.set_hold_usd(e.hold.to_decimal());
  return encoded(m);
}

Encoded to_proto(const account::FundsChanged& e) {
  pb::FundsChanged m;
  m.set_org(e.org.str());
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

account::Event from_proto(const pb::CreditPosted& m, FieldReader& in) {
  account::CreditPosted e{OrgId(m.org()),           m.id(),     m.kind(),
                          in.money(m.amount_usd()), m.author(), from_micros(m.at_us())};
  if (m.expires_at_s() != 0) e.expires_s = m.expires_at_s();
  if (m.priority() != 0) e.priority = m.priority();
  e.used = in.optional_money(m.used_usd());
  e.uncovered = in.optional_money(m.uncovered_usd()).value_or(Money());
  return e;
}

account::Event from_proto(const pb::CreditExpired& m, FieldReader& in) {
  return account::CreditExpired{OrgId(m.org()),         m.id(),  in.money(m.amount_usd()), m.at_s(),
                                in.money(m.used_usd()), m.step()};
}

account::Event from_proto(const pb::FirstPurchase& m, FieldReader&) {
  return account::FirstPurchase{OrgId(m.org()), m.id(), from_micros(m.at_us())};
}

account::Event from_proto(const pb::HoldPlaced& m, FieldReader& in) {
  return account::HoldPlaced{OrgId(m.org()), SandboxUid(m.sandbox_uid()), m.start(),
                             in.rate(m.rate_usd_per_s()), in.money(m.hold_usd())};
}

account::Event from_proto(const pb::HoldFreed& m, FieldReader& in) {
  return account::HoldFreed{OrgId(m.org()), SandboxUid(m.sandbox_uid()), m.start(), in.money(m.hold_usd())};
}

account::Event from_proto(const pb::AccrualStarted& m, FieldReader& in) {
  return account::AccrualStarted{
      OrgId(m.org()), SandboxUid(m.sandbox_uid()), m.start(),  in.rate(m.rate_usd_per_s()),
      m.from_s(),     in.money(m.hold_usd()),      m.storage()};
}

account::Event from_proto(const pb::AccrualFlattened& m, FieldReader& in) {
  return account::AccrualFlattened{
      OrgId(m.org()), SandboxUid(m.sandbox_uid()), m.start(), in.rate(m.rate_usd_per_s()), m.from_s(),
      m.to_s(),       in.money(m.hold_usd())};
}

account::Event from_proto(const pb::LinesFlattened& m, FieldReader& in) {
  return account::LinesFlattened{
      OrgId(m.org()),         ProjectId(m.project()), m.to_s(), in.rate(m.rate_usd_per_s()),
      in.money(m.base_usd()), in.money(m.hold_usd()), m.lines()};
}

account::Event from_proto(const pb::BalanceExhausted& m, FieldReader&) {
  return account::BalanceExhausted{OrgId(m.org()), m.at_s()};
}

account::Event from_proto(const pb::AccrualEnded& m, FieldReader& in) {
  return account::AccrualEnded{.org = OrgId(m.org()),
                               .uid = SandboxUid(m.sandbox_uid()),
                               .start = m.start(),
                               .to_s = m.to_s(),
                               .amount = in.money(m.amount_usd()),
                               .rate = in.rate(m.rate_usd_per_s()),
                               .from_s = m.from_s(),
                               .hold = in.money(m.hold_usd()),
                               .line = line_of(m.line(), in),
                               .flat_s = m.flat_at_s(),
                               .era = m.era()};
}

account::Event from_proto(const pb::RefusalNoted& m, FieldReader& in) {
  return account::RefusalNoted{OrgId(m.org()), in.money(m.hold_usd())};
}

account::Event from_proto(const pb::FundsChanged& m, FieldReader&) {
  return account::FundsChanged{OrgId(m.org()), from_micros(m.at_us())};
}

template <class Message>
Result<account::Event> decoded(const std::string& payload) {
  const auto message = parse<Message>(payload);
  if (!message) return std::unexpected(message.error());
  FieldReader in;
  return in.finish(from_proto(*message, in));
}

}  // namespace

Encoded encode(const account::Event& event) {
  return std::visit([](const auto& e) { return to_proto(e); }, event);
}

Result<account::Event> decode_account(std::string_view type, const std::string& payload) {
  const auto is = [&](const auto* descriptor) { return type == descriptor->full_name(); };
  if (is(pb::CreditPosted::descriptor())) return decoded<pb::CreditPosted>(payload);
  if (is(pb::CreditExpired::descriptor())) return decoded<pb::CreditExpired>(payload);
  if (is(pb::FirstPurchase::descriptor())) return decoded<pb::FirstPurchase>(payload);
  if (is(pb::HoldPlaced::descriptor())) return decoded<pb::HoldPlaced>(payload);
  if (is(pb::HoldFreed::descriptor())) return decoded<pb::HoldFreed>(payload);
  if (is(pb::AccrualStarted::descriptor())) return decoded<pb::AccrualStarted>(payload);
  if (is(pb::AccrualFlattened::descriptor())) return decoded<pb::AccrualFlattened>(payload);
  if (is(pb::LinesFlattened::descriptor())) return decoded<pb::LinesFlattened>(payload);
  if (is(pb::BalanceExhausted::descriptor())) return decoded<pb::BalanceExhausted>(payload);
  if (is(pb::AccrualEnded::descriptor())) return decoded<pb::AccrualEnded>(payload);
  if (is(pb::RefusalNoted::descriptor())) return decoded<pb::RefusalNoted>(payload);
  if (is(pb::FundsChanged::descriptor())) return decoded<pb::FundsChanged>(payload);
  return fail(Code::kInvalid, "EventTypeUnknown", "Unknown event of an account: " + std::string(type) + ".");
}

}  // namespace nodus::metering::codec
