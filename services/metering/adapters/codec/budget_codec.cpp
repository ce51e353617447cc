#include "nodus/metering/v1/events.pb.h"
#include "services/metering/adapters/codec/codec.hpp"
#include "services/metering/adapters/codec/fields.hpp"

namespace nodus::metering::codec {

namespace {

namespace pb = nodus::metering::v1;
using budget::Line;

template <class Message>
Encoded encoded(const Message& message) {
  return {Message::descriptor()->full_name(), message.SerializeAsString()};
}

template <class Message, class Event>
Message about_project(const Event& e) {
  Message m;
  m.set_org(e.org.str());
  m.set_project(e.project.str());
  return m;
}

template <class Message, class Event>
Message about_start(const Event& e) {
  auto m = about_project<Message>(e);
  m.set_sandbox_uid(e.uid.str());
  m.set_start(e.start);
  m.set_hold_usd(e.hold.to_decimal());
  return m;
}

template <class Message, class Event>
Message about_limit(const Event& e) {
  auto m = about_project<Message>(e);
  m.set_name(e.name);
  m.set_percent(e.percent);
  m.set_at_s(e.at_s);
  m.set_limit_usd(e.limit.to_decimal());
  m.set_spent_usd(e.spent.to_decimal());
  return m;
}

constexpr std::string_view kLines[] = {"None", "Live", "Capped", "Exhausted"};

Line line_of(const std::string& text, FieldReader& in) {
  for (const auto line : {Line::kNone, Line::kLive, Line::kCapped, Line::kExhausted})
    if (text == kLines[static_cast<int>(line)]) return line;
  in.fault("A spend whose line ended in an unknown way.");
  return Line::kNone;
}

Encoded to_proto(const budget::BudgetSet& e) {
  auto m = about_project<pb::BudgetSet>(e);
  m.set_name(e.name);
  m.set_uid(e.uid);
  m.set_limit_usd(e.spec.limit.to_decimal());
  m.set_period(std::string(budget::to_string(e.spec.period)));
  for (const int percent : e.spec.thresholds) m.add_thresholds_percent(percent);
  m.set_author(e.author);
  m.set_at_us(to_micros(e.at));
  m.mutable_labels()->insert(e.metadata.labels.begin(), e.metadata.labels.end());
  m.mutable_annotations()->insert(e.metadata.annotations.begin(), e.metadata.annotations.end());
  return encoded(m);
}

Encoded to_proto(const budget::BudgetDeleted& e) {
  auto m = about_project<pb::BudgetDeleted>(e);
  m.set_name(e.name);
  m.set_author(e.author);
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

Encoded to_proto(const budget::HoldPlaced& e) {
  return encoded(about_start<pb::BudgetHoldPlaced>(e));
}

Encoded to_proto(const budget::HoldFreed& e) {
  return encoded(about_start<pb::BudgetHoldFreed>(e));
}

Encoded to_proto(const budget::SpendStarted& e) {
  auto m = about_start<pb::SpendStarted>(e);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_from_s(e.from_s);
  m.set_account_era(e.account_era);
  m.set_storage(e.storage);
  return encoded(m);
}

Encoded to_proto(const budget::SpendFlattened& e) {
  auto m = about_start<pb::SpendFlattened>(e);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_from_s(e.from_s);
  m.set_to_s(e.to_s);
  return encoded(m);
}

Encoded to_proto(const budget::SpendEnded& e) {
  auto m = about_start<pb::SpendEnded>(e);
  m.set_rate_usd_per_s(e.rate.to_decimal());
  m.set_from_s(e.from_s);
  m.set_paid_from_s(e.paid_from_s);
  m.set_paid_to_s(e.paid_to_s);
  m.set_amount_usd(e.amount.to_decimal());
  m.set_line(std::string(kLines[static_cast<int>(e.line)]));
  m.set_flat_at_s(e.flat_s);
  m.set_era(e.era);
  return encoded(m);
}

Encoded to_proto(const budget::MonthBegan& e) {
  auto m = about_project<pb::MonthBegan>(e);
  m.set_at_s(e.at_s);
  return encoded(m);
}

Encoded to_proto(const budget::SpendCutOff& e) {
  auto m = about_project<pb::SpendCutOff>(e);
  m.set_at_s(e.at_s);
  return encoded(m);
}

Encoded to_proto(const budget::BudgetExhausted& e) {
  auto m = about_project<pb::BudgetExhausted>(e);
  m.set_name(e.name);
  m.set_at_s(e.at_s);
  return encoded(m);
}

Encoded to_proto(const budget::ThresholdReached& e) {
  return encoded(about_limit<pb::BudgetThresholdReached>(e));
}

Encoded to_proto(const budget::Recovered& e) {
  return encoded(about_limit<pb::BudgetRecovered>(e));
}

Encoded to_proto(const budget::RefusalNoted& e) {
  auto m = about_project<pb::BudgetRefusalNoted>(e);
  m.set_hold_usd(e.hold.to_decimal());
  return encoded(m);
}

Encoded to_proto(const budget::FundsChanged& e) {
  pb::FundsChanged m;
  m.set_org(e.org.str());
  m.set_at_us(to_micros(e.at));
  return encoded(m);
}

// ---- and back

template <class Event, class Message>
Event of_project(const Message& m) {
  Event e;
  e.org = OrgId(m.org());
  e.project = ProjectId(m.project());
  return e;
}

template <class Event, class Message>
Event of_start(const Message& m, FieldReader& in) {
  auto e = of_project<Event>(m);
  e.uid = SandboxUid(m.sandbox_uid());
  e.start = m.start();
  e.hold = in.money(m.hold_usd());
  return e;
}

template <class Event, class Message>
Event of_limit(const Message& m, FieldReader& in) {
  auto e = of_project<Event>(m);
  e.name = m.name();
  e.percent = m.percent();
  e.at_s = m.at_s();
  e.limit = in.money(m.limit_usd());
  e.spent = in.money(m.spent_usd());
  return e;
}

budget::Event from_proto(const pb::BudgetSet& m, FieldReader& in) {
  auto e = of_project<budget::BudgetSet>(m);
  e.name = m.name();
  e.uid = m.uid();
  e.spec = {in.money(m.limit_usd()),
            in.period(m.period()),
            {m.thresholds_percent().begin(), m.thresholds_percent().end()}};
  e.author = m.author();
  e.at = from_micros(m.at_us());
  e.metadata = {{m.labels().begin(), m.labels().end()}, {m.annotations().begin(), m.annotations().end()}};
  return e;
}

budget::Event from_proto(const pb::BudgetDeleted& m, FieldReader&) {
  auto e = of_project<budget::BudgetDeleted>(m);
  e.name = m.name();
  e.author = m.author();
  e.at = from_micros(m.at_us());
  return e;
}

budget::Event from_proto(const pb::BudgetHoldPlaced& m, FieldReader& in) {
  return of_start<budget::HoldPlaced>(m, in);
}

budget::Event from_proto(const pb::BudgetHoldFreed& m, FieldReader& in) {
  return of_start<budget::HoldFreed>(m, in);
}

budget::Event from_proto(const pb::SpendStarted& m, FieldReader& in) {
  auto e = of_start<budget::SpendStarted>(m, in);
  e.rate = in.rate(m.rate_usd_per_s());
  e.from_s = m.from_s();
  e.account_era = m.account_era();
  e.storage = m.storage();
  return e;
}

budget::Event from_proto(const pb::SpendFlattened& m, FieldReader& in) {
  auto e = of_start<budget::SpendFlattened>(m, in);
  e.rate = in.rate(m.rate_usd_per_s());
  e.from_s = m.from_s();
  e.to_s = m.to_s();
  return e;
}

budget::Event from_proto(const pb::SpendEnded& m, FieldReader& in) {
  auto e = of_start<budget::SpendEnded>(m, in);
  e.rate = in.rate(m.rate_usd_per_s());
  e.from_s = m.from_s();
  e.paid_from_s = m.paid_from_s() == 0 ? m.from_s() : m.paid_from_s();
  e.paid_to_s = m.paid_to_s();
  e.amount = in.money(m.amount_usd());
  e.line = line_of(m.line(), in);
  e.flat_s = m.flat_at_s();
  e.era = m.era();
  return e;
}

budget::Event from_proto(const pb::MonthBegan& m, FieldReader&) {
  auto e = of_project<budget::MonthBegan>(m);
  e.at_s = m.at_s();
  return e;
}

budget::Event from_proto(const pb::SpendCutOff& m, FieldReader&) {
  auto e = of_project<budget::SpendCutOff>(m);
  e.at_s = m.at_s();
  return e;
}

budget::Event from_proto(const pb::BudgetExhausted& m, FieldReader&) {
  auto e = of_project<budget::BudgetExhausted>(m);
  e.name = m.name();
  e.at_s = m.at_s();
  return e;
}

budget::Event from_proto(const pb::BudgetThresholdReached& m, FieldReader& in) {
  return of_limit<budget::ThresholdReached>(m, in);
}

budget::Event from_proto(const pb::BudgetRecovered& m, FieldReader& in) {
  return of_limit<budget::Recovered>(m, in);
}

budget::Event from_proto(const pb::BudgetRefusalNoted& m, FieldReader& in) {
  auto e = of_project<budget::RefusalNoted>(m);
  e.hold = in.money(m.hold_usd());
  return e;
}

budget::Event from_proto(const pb::FundsChanged& m, FieldReader&) {
  return budget::FundsChanged{OrgId(m.org()), from_micros(m.at_us())};
}

template <class... Messages>
Result<budget::Event> decoded(std::string_view type, const std::string& payload) {
  Result<budget::Event> event =
      fail(Code::kInvalid, "EventTypeUnknown", "Unknown event of a budget: " + std::string(type) + ".");
  const auto is = [&]<class Message>(const Message*) {
    if (type != Message::descriptor()->full_name()) return false;
    const auto message = parse<Message>(payload);
    FieldReader in;
    event = message ? in.finish(from_proto(*message, in)) : std::unexpected(message.error());
    return true;
  };
  (void)(is(static_cast<const Messages*>(nullptr)) || ...);
  return event;
}

}  // namespace

Encoded encode(const budget::Event& event) {
  return std::visit([](const auto& e) { return to_proto(e); }, event);
}

Result<budget::Event> decode_budget(std::string_view type, const std::string& payload) {
  return decoded<pb::BudgetSet, pb::BudgetDeleted, pb::BudgetHoldPlaced, pb::BudgetHoldFreed,
                 pb::SpendStarted, pb::SpendFlattened, pb::SpendEnded, pb::MonthBegan, pb::SpendCutOff,
                 pb::BudgetExhausted, pb::BudgetThresholdReached, pb::BudgetRecovered, pb::BudgetRefusalNoted,
                 pb::FundsChanged>(type, payload);
}

}  // namespace nodus::metering::codec
