#include "services/metering/app/works.hpp"

#include <algorithm>

#include "services/metering/app/streams.hpp"
#include "services/metering/domain/lots.hpp"

namespace nodus::metering {

namespace {

template <class Event>
std::vector<eventlog::Event> encoded(const std::vector<Event>& events) {
  std::vector<eventlog::Event> result;
  for (const auto& event : events) {
    auto bytes = codec::encode(event);
    result.push_back({std::move(bytes.type), std::move(bytes.payload)});
  }
  return result;
}

ProjectKey project_of(const BudgetCommand& command) {
  return std::visit([](const auto& c) { return ProjectKey{c.org, c.project}; }, command);
}

MoneySecond whole_seconds(Instant at) {
  return std::chrono::floor<Seconds>(at).time_since_epoch().count();
}

// The instant whose prices a command is decided by; nullopt: it needs none.
std::optional<Instant> priced_at(const Command& command, Instant now) {
  if (std::holds_alternative<JudgeOffer>(command)) return now;
  const auto* close = std::get_if<CloseCharge>(&command);
  return close != nullptr && close->saved_bytes ? close->times.released : std::nullopt;
}

const OrgId& org_of(const AccountCommand& command) {
  return std::visit([](const auto& c) -> const OrgId& { return c.org; }, command);
}

}  // namespace

eventlog::Work Works::on_start(Command command) {
  const SlotRef& slot = slot_of(command);
  return {.key = "",
          .input_hash = "",
          .streams = {account_stream(slot.org), budget_stream(slot.project), charge_stream(slot.uid)},
          .decide = [this, command = std::move(command)](eventlog::Unit& unit) {
            return decide_start(unit, command);
          }};
}

eventlog::Work Works::on_account(AccountCommand command) {
  return {.key = "",
          .input_hash = "",
          .streams = {account_stream(org_of(command))},
          .decide = [this, command = std::move(command)](eventlog::Unit& unit) {
            return decide_account(unit, command);
          }};
}

eventlog::Work Works::on_budget(BudgetCommand command, bool keeps) {
  const auto project = project_of(command);
  return {.key = "",
          .input_hash = "",
          .streams = {account_stream(project.org), budget_stream(project.project)},
          .decide = [this, keeps, command = std::move(command)](eventlog::Unit& unit) {
            return decide_budget(unit, command, keeps);
          }};
}

eventlog::Work Works::account_judged(const OrgId& org, int64_t seen, Instant at) {
  return {.key = "",
          .input_hash = "",
          .streams = {account_stream(org)},
          .decide = [this, org, seen, at](eventlog::Unit& unit) -> Result<std::string> {
            const auto stream = account_stream(org);
            if (unit.head(stream).version != seen) return "";
            const auto state = eventlog::load<Accounts, Accounts>(unit, stream);
            if (!state) return std::unexpected(state.error());
            projections_.deadline_moved(unit, org, next_look(*state, at, at));
            return "";
          }};
}

eventlog::Work Works::budget_judged(const ProjectKey& project, int64_t seen, Instant at) {
  return {.key = "",
          .input_hash = "",
          .streams = {budget_stream(project.project)},
          .decide = [this, project, seen, at](eventlog::Unit& unit) -> Result<std::string> {
            const auto stream = budget_stream(project.project);
            if (unit.head(stream).version != seen) return "";
            const auto state = eventlog::load<Budgets, Budgets>(unit, stream);
            if (!state) return std::unexpected(state.error());
            projections_.budget_deadline_moved(unit, project, budget::next_deadline(*state, at));
            return "";
          }};
}

Result<std::string> Works::decide_start(eventlog::Unit& unit, const Command& command) {
  const SlotRef& slot = slot_of(command);
  const auto charge_name = charge_stream(slot.uid);
  const auto charge = eventlog::load<Charges, Charges>(unit, charge_name);
  if (!charge) return std::unexpected(charge.error());
  const auto account = eventlog::load<Accounts, Accounts>(unit, account_stream(slot.org));
  if (!account) return std::unexpected(account.error());
  const auto budget = eventlog::load<Budgets, Budgets>(unit, budget_stream(slot.project));
  if (!budget) return std::unexpected(budget.error());

  auto with = context(clock_.now());
  if (const auto at = priced_at(command, with.now)) {
    auto price = lookups_.price_in_force(unit, *at);
    if (!price) return std::unexpected(std::move(price.error()));
    with.price = std::move(*price);
  }
  const auto events = decide(*charge, *account, *budget, command, with);
  if (!events) return std::unexpected(events.error());
  if (!events->charge.empty()) {
    auto after = *charge;
    for (const auto& event : events->charge) charge::evolve(after, event);
    unit.append(charge_name, encoded(events->charge), codec::encode_state(after), charge::kStateVersion);
    projections_.charge_changed(unit, slot.uid, *charge, after, events->charge);
  }
  const ProjectKey project{slot.org, slot.project};
  append(unit, slot.org, *account, events->account, with.now);
  append(unit, project, *budget, events->budget, with.now);
  if (std::holds_alternative<DeclineStop>(command) && !events->charge.empty()) {
    projections_.deadline_moved(unit, slot.org, first_look(*account, with.now));
    projections_.budget_deadline_moved(unit, project, first_look(*budget, with.now));
  }
  if (const auto* judge = std::get_if<JudgeMoney>(&command))
    projections_.cap_judged(unit, slot.uid, judge->at);
  if (std::holds_alternative<JudgeStorage>(command) && events->charge.empty())
    projections_.storage_judged(unit, slot.uid, *charge);
  return "";
}

Result<std::string> Works::decide_budget(eventlog::Unit& unit, const BudgetCommand& command, bool keeps) {
  const auto project = project_of(command);
  const auto account = eventlog::load<Accounts, Accounts>(unit, account_stream(project.org));
  if (!account) return std::unexpected(account.error());
  const auto budget = eventlog::load<Budgets, Budgets>(unit, budget_stream(project.project));
  if (!budget) return std::unexpected(budget.error());
  const auto with = context(clock_.now());
  const auto events = decide(*account, *budget, command, with);
  if (!events) return std::unexpected(events.error());
  if (keeps) {
    append(unit, project.org, *account, events->account, with.now);
    append(unit, project, *budget, events->budget, with.now);
  }
  return events->budget.empty() ? "repeated" : "done";
}

Result<std::string> Works::decide_account(eventlog::Unit& unit, AccountCommand command) {
  const OrgId org = org_of(command);
  const auto account = eventlog::load<Accounts, Accounts>(unit, account_stream(org));
  if (!account) return std::unexpected(account.error());
  if (auto* credit = std::get_if<PostCredit>(&command)) {
    if (!credit->total_of.empty()) {
      const auto before = lookups_.refunded(unit, org, credit->total_of);
      if (!before) return std::unexpected(before.error());
      credit->amount -= *before;
      if (credit->amount <= Money()) return "repeated";
    }
    auto posted = lookups_.posted_credit(unit, org, credit->id);
    if (!posted) return std::unexpected(std::move(posted.error()));
    credit->posted = std::move(*posted);
  }
  const auto with = context(clock_.now());
  const auto events = decide(*account, command, with);
  if (!events) return std::unexpected(events.error());
  append(unit, org, *account, *events, with.now);
  return events->empty() ? "repeated" : "done";
}

void Works::append(eventlog::Unit& unit, const OrgId& org, const account::State& before,
                   const std::vector<account::Event>& events, Instant now) {
  if (events.empty()) return;
  auto after = before;
  for (const auto& event : events) account::evolve(after, event);
  unit.append(account_stream(org), encoded(events), codec::encode_state(after), account::kStateVersion);
  projections_.account_changed(unit, after, events, first_look(after, now));
}

void Works::append(eventlog::Unit& unit, const ProjectKey& project, const budget::State& before,
                   const std::vector<budget::Event>& events, Instant now) {
  if (events.empty()) return;
  auto after = before;
  for (const auto& event : events) budget::evolve(after, event);
  unit.append(budget_stream(project.project), encoded(events), codec::encode_state(after),
              budget::kStateVersion);
  projections_.budget_changed(unit, before, after, events, first_look(after, now), now);
}

std::optional<Instant> Works::first_look(const budget::State& budget, Instant now) {
  if (!budget.exhaustions.empty()) return now;
  return budget::next_deadline(budget, Instant());
}

std::optional<Instant> Works::first_look(const account::State& account, Instant now) const {
  if (!account.exhaustions.empty() || account::next_expiry(account, whole_seconds(now))) return now;
  return next_look(account, Instant(), now);
}

std::optional<Instant> Works::next_look(const account::State& account, Instant ends_after,
                                        Instant expires_after) const {
  auto next = account::next_deadline(account, durations_.stop_reserve, ends_after);
  if (const auto expiry_s = account::expires_next(account, whole_seconds(expires_after)))
    next = std::min(next.value_or(to_instant(*expiry_s)), to_instant(*expiry_s));
  return next;
}

}  // namespace nodus::metering
