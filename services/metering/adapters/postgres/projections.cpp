#include <algorithm>
#include <iterator>

#include "libs/telemetry/failpoint.hpp"
#include "services/metering/adapters/postgres/budget_changes.hpp"
#include "services/metering/adapters/postgres/ledger.hpp"
#include "services/metering/adapters/postgres/read_models.hpp"
#include "services/metering/adapters/postgres/row_batch.hpp"
#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/app/streams.hpp"

namespace nodus::metering {

namespace {

// At once, so that a repeat in the same batch sees it.
void post_credit(pg::Tx& tx, const account::CreditPosted& credit) {
  tx.exec_params("INSERT INTO postings (org, kind, ref, amount, at_us) VALUES ($1, 'Credit', $2, $3, $4)",
                 credit.org.str(), credit.id, credit.amount.to_decimal(), to_micros(credit.at));
  tx.exec_params(
      "INSERT INTO credits (org, id, kind, amount, uncovered, priority, expires_s, author, at_us)"
      " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
      credit.org.str(), credit.id, credit.kind, credit.amount.to_decimal(), credit.uncovered.to_decimal(),
      credit.priority, credit.expires_s, credit.author, to_micros(credit.at));
}

void post_expiry(pg::Tx& tx, const LedgerEntry& entry) {
  tx.exec_params("INSERT INTO postings (org, kind, ref, amount, at_us) VALUES ($1, 'Expiry', $2, $3, $4)",
                 entry.org.str(), entry.ref, balance_change(entry).to_decimal(), to_micros(entry.at));
}

// The entries of events that were just appended to `stream`.
template <class Event>
void stage_entries(eventlog::Unit& unit, const std::string& stream, std::span<const Event> events) {
  int64_t version = unit.head(stream).version - std::ssize(events);
  for (const auto& event : events) {
    ++version;
    if (auto entry = entry_of(event)) unit.stage(LedgerNote{std::move(*entry), stream, version});
  }
}

void write_exhaustion(pg::Tx& tx, const account::BalanceExhausted& ended, int64_t era) {
  tx.exec_params("INSERT INTO exhaustions (org, era, at_s) VALUES ($1, $2, $3)", ended.org.str(), era,
                 ended.at_s);
}

}  // namespace

PostgresProjections::PostgresProjections(eventlog::EventLog& log) {
  log.on_append([](pg::Tx& tx, std::vector<std::any>& staged) {
    (void)failpoint("metering.before_rows");
    write_rows(tx, staged);
    write_ledger(tx, staged);
    write_budget_changes(tx, staged);
  });
}

void PostgresProjections::charge_changed(eventlog::Unit& unit, const SandboxUid& uid,
                                         const charge::State& before, const charge::State& after,
                                         std::span<const charge::Event> events) {
  bool declined = false;  // perhaps its cap was judged while it stopped: judge it again
  auto cap_s = before.current ? before.current->cap_s : std::nullopt;
  std::string stored_name = before.stored ? before.stored->sandbox_name : "";
  for (const auto& event : events) {
    if (const auto* funded = std::get_if<charge::StartFunded>(&event)) unit.stage(FundedNote{*funded});
    if (const auto* opened = std::get_if<charge::ChargeOpened>(&event)) cap_s = opened->cap_s;
    declined |= std::holds_alternative<charge::StopDeclined>(event) ||
                std::holds_alternative<charge::CapRaised>(event);
    if (const auto* piece = std::get_if<charge::StorageOpened>(&event)) {
      stored_name = piece->sandbox_name;
      unit.stage(StorageFactNote{*piece});
    }
    if (const auto* metered = std::get_if<charge::StorageMetered>(&event))
      unit.stage(StorageNote{*metered, stored_name});
    const auto* closed = std::get_if<charge::ChargeClosed>(&event);
    if (closed == nullptr) continue;
    CHECK(before.current.has_value(), "start {} closed without being funded", closed->slot.start);
    unit.stage(BillNote{*closed, before.current->sandbox_name, cap_s});
  }
  unit.stage(StartNote{uid, after.current, declined});
  if (before.stored || after.stored) storage_judged(unit, uid, after);
  stage_entries(unit, charge_stream(uid), events);
}

void PostgresProjections::account_changed(eventlog::Unit& unit, const account::State& after,
                                          std::span<const account::Event> events,
                                          std::optional<Instant> due) {
  int64_t era = after.era - std::ranges::count_if(events, [](const account::Event& event) {
                  return std::holds_alternative<account::BalanceExhausted>(event);
                });
  for (const auto& event : events) {
    if (std::holds_alternative<account::BalanceExhausted>(event) ||
        std::holds_alternative<account::FundsChanged>(event))
      unit.stage(StorageDueNote{after.org, std::nullopt});
    if (const auto* ended = std::get_if<account::BalanceExhausted>(&event))
      unit.project([e = *ended, era = era++](pg::Tx& tx) { write_exhaustion(tx, e, era); });
    if (const auto* credit = std::get_if<account::CreditPosted>(&event))
      unit.project([c = *credit](pg::Tx& tx) { post_credit(tx, c); });
    const bool expired = std::holds_alternative<account::CreditExpired>(event);
    if (auto entry = entry_of(event); entry && expired)
      unit.project([entry = std::move(*entry)](pg::Tx& tx) { post_expiry(tx, entry); });
  }
  unit.stage(AccountNote{after});
  stage_entries(unit, account_stream(after.org), events);
  unit.stage(DueNote{after.org, due});
}

void PostgresProjections::deadline_moved(eventlog::Unit& unit, const OrgId& org, std::optional<Instant> due) {
  unit.stage(DueNote{org, due});
}

void PostgresProjections::storage_judged(eventlog::Unit& unit, const SandboxUid& uid,
                                         const charge::State& after) {
  unit.stage(StoredNote{uid, after.stored, after.restore_point ? after.restore_point->rate : Rate()});
}

void PostgresProjections::budget_changed(eventlog::Unit& unit, const budget::State& before,
                                         const budget::State& after, std::span<const budget::Event> events,
                                         std::optional<Instant> due, Instant now) {
  for (auto& change : budget_changes(before, after, now)) unit.stage(std::move(change));
  const auto moves_money = [](const budget::Event& e) {
    return std::holds_alternative<budget::BudgetExhausted>(e) ||
           std::holds_alternative<budget::SpendCutOff>(e) || std::holds_alternative<budget::MonthBegan>(e) ||
           std::holds_alternative<budget::FundsChanged>(e);
  };
  if (std::ranges::any_of(events, moves_money)) unit.stage(StorageDueNote{after.org, after.project});
  unit.stage(SpendNote{after});
  unit.stage(BudgetDueNote{after.org, after.project, due});
}

void PostgresProjections::budget_deadline_moved(eventlog::Unit& unit, const ProjectKey& project,
                                                std::optional<Instant> due) {
  unit.stage(BudgetDueNote{project.org, project.project, due});
}

void PostgresProjections::cap_judged(eventlog::Unit& unit, const SandboxUid& uid, Instant now) {
  unit.stage(CapJudgedNote{uid, to_money_second(now)});
}

}  // namespace nodus::metering
