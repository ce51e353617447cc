#include "services/metering/adapters/codec/codec.hpp"
#include "services/metering/adapters/codec/fields.hpp"
#include "services/metering/adapters/codec/state.pb.h"

namespace nodus::metering::codec {

namespace {

namespace pb = nodus::metering::state::v1;

void put(const budget::Sums& from, pb::SumsState* to) {
  to->set_spent_usd(from.spent.to_decimal());
  to->set_pending_usd(from.pending.to_decimal());
  to->set_base_usd(from.base.to_decimal());
}

budget::Sums sums_of(const pb::SumsState& from, FieldReader& in) {
  return {in.money(from.spent_usd()), in.money(from.pending_usd()), in.money(from.base_usd())};
}

void put(const budget::Budget& from, pb::BudgetItem* to) {
  to->set_name(from.name);
  to->set_uid(from.uid);
  to->set_limit_usd(from.spec.limit.to_decimal());
  to->set_period(std::string(budget::to_string(from.spec.period)));
  for (const int percent : from.spec.thresholds) to->add_thresholds_percent(percent);
  to->mutable_labels()->insert(from.metadata.labels.begin(), from.metadata.labels.end());
  to->mutable_annotations()->insert(from.metadata.annotations.begin(), from.metadata.annotations.end());
  to->set_created_at_us(to_micros(from.created_at));
  to->set_generation(from.generation);
  to->set_cover_usd(from.cover.to_decimal());
  to->set_reached(from.reached);
  if (from.exhausted_s) to->set_exhausted_s(*from.exhausted_s);
}

budget::Budget budget_of(const pb::BudgetItem& from, FieldReader& in) {
  budget::Budget to{.name = from.name(),
                    .uid = from.uid(),
                    .spec = {in.money(from.limit_usd()),
                             in.period(from.period()),
                             {from.thresholds_percent().begin(), from.thresholds_percent().end()}},
                    .metadata = {{from.labels().begin(), from.labels().end()},
                                 {from.annotations().begin(), from.annotations().end()}},
                    .created_at = from_micros(from.created_at_us()),
                    .generation = from.generation(),
                    .cover = in.money(from.cover_usd()),
                    .reached = from.reached(),
                    .exhausted_s = {}};
  if (from.has_exhausted_s()) to.exhausted_s = from.exhausted_s();
  return to;
}

}  // namespace

std::string encode_state(const budget::State& state) {
  pb::BudgetState to;
  to.set_org(state.org.str());
  to.set_project(state.project.str());
  put(state.total, to.mutable_total());
  put(state.month, to.mutable_month());
  to.set_month_s(state.month_s);
  to.set_held_funded_usd(state.held_funded.to_decimal());
  to.set_held_open_usd(state.held_open.to_decimal());
  to.set_rate_usd_per_s(state.rate.to_decimal());
  to.set_funded(state.funded);
  to.set_open(state.open);
  to.set_era(state.era);
  to.set_account_era(state.account_era);
  to.set_since_s(state.since_s);
  for (const auto& from : state.exhaustions) {
    auto* entry = to.add_exhaustions();
    entry->set_era(from.era);
    entry->set_at_s(from.at_s);
    entry->set_starts(from.starts);
    entry->set_by_budget(from.by_budget);
  }
  for (const auto& from : state.budgets) put(from, to.add_budgets());
  if (state.smallest_refused) to.set_smallest_refused_usd(state.smallest_refused->to_decimal());
  return to.SerializeAsString();
}

Result<budget::State> decode_budget_state(const std::string& bytes) {
  const auto from = parse<pb::BudgetState>(bytes);
  if (!from) return std::unexpected(from.error());
  FieldReader in;
  budget::State state{.org = OrgId(from->org()),
                      .project = ProjectId(from->project()),
                      .total = sums_of(from->total(), in),
                      .month = sums_of(from->month(), in),
                      .month_s = from->month_s(),
                      .held_funded = in.money(from->held_funded_usd()),
                      .held_open = in.money(from->held_open_usd()),
                      .rate = in.rate(from->rate_usd_per_s()),
                      .funded = from->funded(),
                      .open = from->open(),
                      .era = from->era(),
                      .account_era = from->account_era(),
                      .since_s = from->since_s(),
                      .exhaustions = {},
                      .budgets = {},
                      .smallest_refused = {}};
  for (const auto& entry : from->exhaustions())
    state.exhaustions.push_back({entry.era(), entry.at_s(), entry.starts(), entry.by_budget()});
  for (const auto& item : from->budgets()) state.budgets.push_back(budget_of(item, in));
  if (from->has_smallest_refused_usd()) state.smallest_refused = in.money(from->smallest_refused_usd());
  return in.finish(std::move(state));
}

}  // namespace nodus::metering::codec
