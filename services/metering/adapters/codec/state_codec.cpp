#include "services/metering/adapters/codec/codec.hpp"
#include "services/metering/adapters/codec/fields.hpp"
#include "services/metering/adapters/codec/state.pb.h"

namespace nodus::metering::codec {

namespace {

namespace pb = nodus::metering::state::v1;

void put(const charge::Start& from, pb::StartState* to) {
  codec::put(from.slot, to->mutable_slot());
  to->set_sandbox_name(from.sandbox_name);
  to->set_open(from.phase == charge::Phase::kOpen);
  to->set_rate_usd_per_s(from.rate.to_decimal());
  to->set_hold_usd(from.hold.to_decimal());
  if (from.max_cost) to->set_max_cost_usd(from.max_cost->to_decimal());
  codec::put(from.times, to->mutable_times());
  to->set_from_s(from.from_s);
  if (from.cap_s) to->set_cap_s(*from.cap_s);
  to->set_era(from.era);
  to->set_capped(from.capped);
  to->set_stop_ordered(from.stop_ordered);
  to->set_recovery(from.recovery);
  to->set_budgeted(from.budgeted);
  to->set_budget_era(from.budget_era);
  if (from.paid_until_s) to->set_paid_until_s(*from.paid_until_s);
  if (from.declined) to->set_declined_us(to_micros(*from.declined));
}

charge::Start start_of(const pb::StartState& from, FieldReader& in) {
  charge::Start start{.slot = in.slot(from.slot()),
                      .sandbox_name = from.sandbox_name(),
                      .phase = from.open() ? charge::Phase::kOpen : charge::Phase::kFunded,
                      .rate = in.rate(from.rate_usd_per_s()),
                      .hold = in.money(from.hold_usd()),
                      .times = to_times(from.times()),
                      .from_s = from.from_s(),
                      .era = from.era(),
                      .recovery = from.recovery(),
                      .budgeted = from.budgeted(),
                      .budget_era = from.budget_era(),
                      .capped = from.capped(),
                      .stop_ordered = from.stop_ordered()};
  if (from.has_max_cost_usd()) start.max_cost = in.money(from.max_cost_usd());
  if (from.has_cap_s()) start.cap_s = from.cap_s();
  if (from.has_paid_until_s()) start.paid_until_s = from.paid_until_s();
  if (from.has_declined_us()) start.declined = from_micros(from.declined_us());
  return start;
}

void put(const charge::Stored& from, pb::StoredState* to) {
  codec::put(from.slot, to->mutable_slot());
  to->set_sandbox_name(from.sandbox_name);
  to->set_from_s(from.from_s);
  to->set_era(from.era);
  to->set_budget_era(from.budget_era);
  to->set_waived_reason(std::string(to_string(from.waived)));
}

charge::Stored stored_of(const pb::StoredState& from, FieldReader& in) {
  return {in.slot(from.slot()), from.sandbox_name(), from.from_s(),
          from.era(),           from.budget_era(),   in.cause(from.waived_reason())};
}

}  // namespace

std::string encode_state(const charge::State& state) {
  pb::ChargeState to;
  if (state.current) put(*state.current, to.mutable_current());
  to.set_last_start(state.last_start);
  to.set_last_outcome(static_cast<int32_t>(state.last_outcome));
  to.set_closed_total_usd(state.closed_total.to_decimal());
  to.set_last_released_s(state.last_released_s);
  if (state.last_rate) to.set_last_rate_usd_per_s(state.last_rate->to_decimal());
  if (const auto& point = state.restore_point) {
    to.mutable_restore_point()->set_size_bytes(point->size_bytes);
    to.mutable_restore_point()->set_price_version(point->price_version);
    to.mutable_restore_point()->set_rate_usd_per_s(point->rate.to_decimal());
  }
  if (state.stored) put(*state.stored, to.mutable_stored());
  to.set_stored_to_s(state.stored_to_s);
  return to.SerializeAsString();
}

Result<charge::State> decode_charge_state(const std::string& bytes) {
  const auto from = parse<pb::ChargeState>(bytes);
  if (!from) return std::unexpected(from.error());
  FieldReader in;
  charge::State state;
  if (from->has_current()) state.current = start_of(from->current(), in);
  state.last_start = from->last_start();
  if (from->last_outcome() < 0 || from->last_outcome() > static_cast<int32_t>(charge::Outcome::kClosed))
    in.fault("A charge with an unknown outcome.");
  state.last_outcome = static_cast<charge::Outcome>(from->last_outcome());
  state.closed_total = in.money(from->closed_total_usd());
  state.last_released_s = from->last_released_s();
  if (from->has_last_rate_usd_per_s()) state.last_rate = in.rate(from->last_rate_usd_per_s());
  if (from->has_restore_point())
    state.restore_point =
        charge::RestorePoint{from->restore_point().size_bytes(), from->restore_point().price_version(),
                             in.rate(from->restore_point().rate_usd_per_s())};
  if (from->has_stored()) state.stored = stored_of(from->stored(), in);
  state.stored_to_s = from->stored_to_s();
  return in.finish(std::move(state));
}

std::string encode_state(const account::State& state) {
  pb::AccountState to;
  to.set_org(state.org.str());
  to.set_credits_usd(state.credits.to_decimal());
  to.set_charged_usd(state.charged.to_decimal());
  to.set_pending_usd(state.pending.to_decimal());
  to.set_held_funded_usd(state.held_funded.to_decimal());
  to.set_held_open_usd(state.held_open.to_decimal());
  to.set_rate_usd_per_s(state.rate.to_decimal());
  to.set_base_usd(state.base.to_decimal());
  to.set_funded(state.funded);
  to.set_open(state.open);
  to.set_era(state.era);
  for (const auto& exhaustion : state.exhaustions) {
    auto* entry = to.add_exhaustions();
    entry->set_era(exhaustion.era);
    entry->set_at_s(exhaustion.at_s);
    entry->set_starts(exhaustion.starts);
  }
  to.set_purchased(state.purchased);
  for (const auto& lot : state.lots) {
    auto* entry = to.add_lots();
    entry->set_id(lot.id);
    entry->set_priority(lot.priority);
    if (lot.expires_s) entry->set_expires_s(*lot.expires_s);
    entry->set_left_usd(lot.left.to_decimal());
    entry->set_steps(lot.steps);
  }
  to.set_used_up_usd(state.used_up.to_decimal());
  if (state.smallest_refused) to.set_smallest_refused_usd(state.smallest_refused->to_decimal());
  return to.SerializeAsString();
}

Result<account::State> decode_account_state(const std::string& bytes) {
  const auto from = parse<pb::AccountState>(bytes);
  if (!from) return std::unexpected(from.error());
  FieldReader in;
  account::State state{.org = OrgId(from->org()),
                       .credits = in.money(from->credits_usd()),
                       .charged = in.money(from->charged_usd()),
                       .pending = in.money(from->pending_usd()),
                       .held_funded = in.money(from->held_funded_usd()),
                       .held_open = in.money(from->held_open_usd()),
                       .rate = in.rate(from->rate_usd_per_s()),
                       .base = in.money(from->base_usd()),
                       .funded = from->funded(),
                       .open = from->open(),
                       .era = from->era()};
  for (const auto& entry : from->exhaustions())
    state.exhaustions.push_back({entry.era(), entry.at_s(), entry.starts()});
  state.purchased = from->purchased();
  for (const auto& entry : from->lots()) {
    account::Lot lot{entry.id(), entry.priority(), std::nullopt, in.money(entry.left_usd()), entry.steps()};
    if (entry.has_expires_s()) lot.expires_s = entry.expires_s();
    state.lots.push_back(std::move(lot));
  }
  if (from->has_used_up_usd())
    state.used_up = in.money(from->used_up_usd());
  else if (state.credits > Money())  // all credits of such a release were alike
    state.lots.push_back({"", account::kDefaultPriority, std::nullopt, state.credits, 0});
  if (from->has_smallest_refused_usd()) state.smallest_refused = in.money(from->smallest_refused_usd());
  return in.finish(std::move(state));
}

}  // namespace nodus::metering::codec
