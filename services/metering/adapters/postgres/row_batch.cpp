#include "services/metering/adapters/postgres/row_batch.hpp"

#include <boost/json.hpp>
#include <map>
#include <tuple>

#include "services/metering/adapters/postgres/bill_lines.hpp"
#include "services/metering/adapters/postgres/text_rows.hpp"
#include "services/metering/domain/ledger.hpp"

namespace nodus::metering {

namespace {

struct Folded {
  std::map<std::string, const StartNote*> starts;  // by uid
  std::map<std::string, bool> arm;
  std::map<std::string, MoneySecond> judged;
  std::vector<const BillNote*> bills;
  std::vector<const FundedNote*> funded;
  std::map<std::pair<std::string, int64_t>, const LabelsNote*> labels;  // by uid and start
  std::map<std::string, const StoredNote*> stored;                      // by uid
  std::vector<const StorageNote*> storage;
  std::vector<const StorageFactNote*> storage_facts;
  std::vector<const StorageDueNote*> storage_due;
  std::map<std::string, const AccountNote*> accounts;  // by organization
  std::map<std::string, const DueNote*> due;
  std::map<std::string, const SpendNote*> spend;  // by project
  std::map<std::string, const BudgetDueNote*> budget_due;
};

Folded fold(const std::vector<std::any>& staged) {
  Folded out;
  for (const auto& any : staged) {
    if (const auto* start = std::any_cast<StartNote>(&any)) {
      out.starts[start->uid.str()] = start;
      out.arm[start->uid.str()] |= start->arm_cap;
      if (start->arm_cap) out.judged.erase(start->uid.str());
    } else if (const auto* judged = std::any_cast<CapJudgedNote>(&any)) {
      out.judged[judged->uid.str()] = judged->until_s;
    } else if (const auto* bill = std::any_cast<BillNote>(&any)) {
      out.bills.push_back(bill);
    } else if (const auto* funded = std::any_cast<FundedNote>(&any)) {
      out.funded.push_back(funded);
    } else if (const auto* labels = std::any_cast<LabelsNote>(&any)) {
      out.labels[{labels->uid.str(), labels->start}] = labels;
    } else if (const auto* stored = std::any_cast<StoredNote>(&any)) {
      out.stored[stored->uid.str()] = stored;
    } else if (const auto* metered = std::any_cast<StorageNote>(&any)) {
      out.storage.push_back(metered);
    } else if (const auto* fact = std::any_cast<StorageFactNote>(&any)) {
      out.storage_facts.push_back(fact);
    } else if (const auto* storage_due = std::any_cast<StorageDueNote>(&any)) {
      out.storage_due.push_back(storage_due);
    } else if (const auto* account = std::any_cast<AccountNote>(&any)) {
      out.accounts[account->after.org.str()] = account;
    } else if (const auto* due = std::any_cast<DueNote>(&any)) {
      out.due[due->org.str()] = due;
    } else if (const auto* spend = std::any_cast<SpendNote>(&any)) {
      out.spend[spend->after.project.str()] = spend;
    } else if (const auto* budget_due = std::any_cast<BudgetDueNote>(&any)) {
      out.budget_due[budget_due->project.str()] = budget_due;
    }
  }
  return out;
}

void write_starts(pg::Tx& tx, const Folded& notes) {
  Rows<1> gone;
  Rows<20> rows;
  for (const auto& [uid, note] : notes.starts) {
    if (!note->start) {
      gone.add({uid});
      continue;
    }
    const charge::Start& s = *note->start;
    rows.add({uid,
              text(s.slot.start),
              s.slot.org.str(),
              s.slot.project.str(),
              s.sandbox_name,
              text(s.phase == charge::Phase::kOpen),
              s.rate.to_decimal(),
              s.hold.to_decimal(),
              text(s.times.started),
              text(s.times.stopping),
              text(s.from_s),
              text(s.cap_s),
              text(s.era),
              text(s.capped),
              text(s.stop_ordered),
              text(s.paid_until_s),
              text(notes.arm.at(uid)),
              text(s.budgeted),
              text(s.budget_era),
              text(s.recovery)});
  }
  gone.exec(tx, "rows_starts_gone", "DELETE FROM starts WHERE sandbox_uid = ANY ($1::text[])");
  // A cap that was judged is not due again, unless it is another start, a raised cap, or armed anew.
  rows.exec(
      tx, "rows_starts",
      "WITH given AS (SELECT uid, start::bigint, org, project, name, open::boolean, rate::numeric,"
      " hold::numeric, nullif(started, '')::bigint AS started_us, nullif(stopping, '')::bigint AS "
      "stopping_us,"
      " from_s::bigint, nullif(cap_s, '')::bigint AS cap_s, era::bigint, capped::boolean,"
      " stop_ordered::boolean, nullif(paid_until_s, '')::bigint AS paid_until_s, arm::boolean,"
      " budgeted::boolean, budget_era::bigint, recovery::boolean"
      " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],"
      " $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],"
      " $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[]) AS u (uid, start, org, "
      "project,"
      " name, open, rate, hold, started, stopping, from_s, cap_s, era, capped, stop_ordered, paid_until_s,"
      " arm, budgeted, budget_era, recovery))"
      " INSERT INTO starts (sandbox_uid, start, org, project, sandbox_name, open, rate, hold, started_us,"
      " stopping_us, from_s, cap_s, cap_due_s, era, capped, stop_ordered, paid_until_s,"
      " budgeted, budget_era, recovery) SELECT g.uid, g.start, g.org, g.project, g.name, g.open, g.rate, "
      "g.hold, "
      "g.started_us,"
      " g.stopping_us, g.from_s, g.cap_s,"
      " CASE WHEN NOT g.arm AND s.start = g.start AND s.open THEN s.cap_due_s ELSE g.cap_s END,"
      " g.era, g.capped, g.stop_ordered, g.paid_until_s, g.budgeted, g.budget_era, g.recovery"
      " FROM given g LEFT JOIN starts s ON s.sandbox_uid = g.uid"
      " ON CONFLICT (sandbox_uid) DO UPDATE SET start = excluded.start, org = excluded.org,"
      " project = excluded.project, sandbox_name = excluded.sandbox_name, open = excluded.open,"
      " rate = excluded.rate, hold = excluded.hold, started_us = excluded.started_us,"
      " stopping_us = excluded.stopping_us, from_s = excluded.from_s, cap_s = excluded.cap_s,"
      " cap_due_s = excluded.cap_due_s, era = excluded.era, capped = excluded.capped,"
      " stop_ordered = excluded.stop_ordered, paid_until_s = excluded.paid_until_s,"
      " budgeted = excluded.budgeted, budget_era = excluded.budget_era, recovery = excluded.recovery");
  Rows<2> judged;
  for (const auto& [uid, until_s] : notes.judged) judged.add({uid, text(until_s)});
  judged.exec(tx, "rows_caps_judged",
              "UPDATE starts SET cap_due_s = NULL FROM unnest($1::text[], $2::text[]) AS u (uid, until_s)"
              " WHERE sandbox_uid = u.uid AND cap_due_s <= u.until_s::bigint");
}

// Before the sums of the accounts are written, and what is due after: a row that goes is not due.
void write_stored(pg::Tx& tx, const Folded& notes) {
  Rows<1> gone;
  Rows<10> rows;
  Rows<5> facts;
  for (const auto& [uid, note] : notes.stored) {
    if (!note->stored) {
      gone.add({uid});
      continue;
    }
    const charge::Stored& s = *note->stored;
    rows.add({uid, text(s.slot.start), s.slot.org.str(), s.slot.project.str(), s.sandbox_name,
              note->rate.to_decimal(), text(s.from_s), text(s.era), text(s.budget_era),
              std::string(to_string(s.waived))});
  }
  for (const StorageFactNote* note : notes.storage_facts) {
    const auto& [slot, opened] = std::tie(note->opened.slot, note->opened);
    facts.add(
        {slot.uid.str(), text(slot.start), slot.org.str(), opened.price_version, text(opened.size_bytes)});
  }
  gone.exec(tx, "rows_stored_gone", "DELETE FROM stored WHERE sandbox_uid = ANY ($1::text[])");
  rows.exec(
      tx, "rows_stored",
      "INSERT INTO stored (sandbox_uid, start, org, project, sandbox_name, rate, from_s, era, budget_era,"
      " waived, due) SELECT uid, start::bigint, org, project, name, rate::numeric, from_s::bigint,"
      " era::bigint, budget_era::bigint, waived, false FROM unnest($1::text[], $2::text[], $3::text[],"
      " $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[]) AS u (uid,"
      " start, org, project, name, rate, from_s, era, budget_era, waived)"
      " ON CONFLICT (sandbox_uid) DO UPDATE SET start = excluded.start, org = excluded.org,"
      " project = excluded.project, sandbox_name = excluded.sandbox_name, rate = excluded.rate,"
      " from_s = excluded.from_s, era = excluded.era, budget_era = excluded.budget_era,"
      " waived = excluded.waived, due = false");
  facts.exec(
      tx, "rows_storage_facts",
      "INSERT INTO storage_facts (sandbox_uid, start, org, price_version, size_bytes)"
      " SELECT uid, start::bigint, org, version, size::bigint FROM unnest($1::text[], $2::text[],"
      " $3::text[], $4::text[], $5::text[]) AS u (uid, start, org, version, size) ON CONFLICT DO NOTHING");
}

void write_storage_due(pg::Tx& tx, const Folded& notes) {
  Rows<1> orgs, projects;
  for (const StorageDueNote* note : notes.storage_due) {
    if (note->project)
      projects.add({note->project->str()});
    else
      orgs.add({note->org.str()});
  }
  orgs.exec(tx, "rows_storage_due_org",
            "UPDATE stored s SET due = true FROM accounts a WHERE s.org = ANY ($1::text[]) AND NOT s.due"
            " AND a.org = s.org AND (s.waived <> '' OR s.era < a.era)");
  projects.exec(tx, "rows_storage_due_project",
                "UPDATE stored s SET due = true FROM project_spend p WHERE s.project = ANY ($1::text[])"
                " AND NOT s.due AND p.project = s.project AND (s.waived <> '' OR s.budget_era < p.era)");
}

std::string to_json(const LabelsNote* note) {
  boost::json::object labels;
  if (note != nullptr)
    for (const auto& [key, value] : note->labels) labels[key] = value;
  return boost::json::serialize(labels);
}

void write_facts(pg::Tx& tx, const Folded& notes) {
  Rows<9> rows;
  for (const FundedNote* note : notes.funded) {
    const auto& [slot, prices] = std::tie(note->funded.slot, note->funded.prices);
    const auto labels = notes.labels.find({slot.uid.str(), slot.start});
    const PricesUsed used = prices.value_or(PricesUsed());
    rows.add({slot.uid.str(), text(slot.start), slot.org.str(), note->funded.price_version,
              to_json(labels == notes.labels.end() ? nullptr : labels->second), text(used.shape.cpu_milli),
              text(used.shape.memory_bytes), text(used.shape.disk_bytes), used.machine_type});
  }
  rows.exec(
      tx, "rows_start_facts",
      "INSERT INTO start_facts (sandbox_uid, start, org, price_version, labels, cpu_milli, memory_bytes,"
      " disk_bytes, machine_type) SELECT uid, start::bigint, org, version, labels::jsonb, cpu::bigint,"
      " memory::bigint, disk::bigint, machine FROM unnest($1::text[], $2::text[], $3::text[], $4::text[],"
      " $5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) AS u (uid, start, org, version, labels,"
      " cpu, memory, disk, machine)");
}

void write_bills(pg::Tx& tx, const Folded& notes) {
  Rows<12> lines;
  Rows<5> postings;
  for (const StorageNote* note : notes.storage) {
    const charge::StorageMetered& metered = note->metered;
    const SlotRef& slot = metered.slot;
    for (const auto& [line, reason] : billed(metered))
      lines.add({slot.uid.str(), text(slot.start), text(storage_ordinal(line.from_s)), slot.org.str(),
                 slot.project.str(), note->sandbox_name, std::string(to_string(line.kind)), text(line.from_s),
                 text(line.to_s), metered.rate.to_decimal(), line.amount.to_decimal(), reason});
    if (const auto entry = entry_of(metered))
      postings.add({slot.org.str(), entry->kind, entry->ref, balance_change(*entry).to_decimal(),
                    text(to_micros(metered.at))});
  }
  for (const BillNote* note : notes.bills) {
    const charge::ChargeClosed& closed = note->closed;
    const SlotRef& slot = closed.slot;
    int64_t ordinal = 0;
    for (const auto& [line, reason] : billed(closed, note->cap_s))
      lines.add({slot.uid.str(), text(slot.start), text(++ordinal), slot.org.str(), slot.project.str(),
                 note->sandbox_name, std::string(to_string(line.kind)), text(line.from_s), text(line.to_s),
                 closed.rate.to_decimal(), line.amount.to_decimal(), reason});
    postings.add({slot.org.str(), "Charge", slot.uid.str() + "/" + text(slot.start),
                  (-closed.amount).to_decimal(), text(to_micros(closed.at))});
  }
  // Whoever closes a month holds the head of account/<org>, as this transaction does: a line is either in
  // time or late. For the same reason nobody else writes the organization's sums.
  lines.exec(
      tx, "rows_bill_lines",
      "WITH given AS (SELECT uid, start::bigint, ordinal::integer, u.org, project, name, kind,"
      " from_s::bigint, to_s::bigint, rate::numeric, amount::numeric, reason,"
      " CASE WHEN from_s::bigint < p.closed_to_s THEN p.next_month END AS late_in"
      " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],"
      " $8::text[], $9::text[], $10::text[], $11::text[], $12::text[]) AS u (uid, start, ordinal, org,"
      " project, name, kind, from_s, to_s, rate, amount, reason)"
      " LEFT JOIN billing_periods p ON p.org = u.org),"
      " written AS (INSERT INTO bill_lines (sandbox_uid, start, ordinal, org, project, sandbox_name, kind,"
      " from_s, to_s, rate, amount, waived, reason, late_in) SELECT uid, start, ordinal, org, project, name,"
      " kind, from_s, to_s, rate, amount, reason <> 'Charged', reason, late_in FROM given)"
      " INSERT INTO bill_days AS d (org, day, project, kind, reason, late_in, seconds, amount, lines)"
      " SELECT org, from_s / 86400, project, kind, reason, coalesce(late_in, 0), sum(to_s - from_s),"
      " sum(amount), count(*) FROM given GROUP BY 1, 2, 3, 4, 5, 6"
      " ON CONFLICT (org, day, project, kind, reason, late_in) DO UPDATE SET"
      " seconds = d.seconds + excluded.seconds, amount = d.amount + excluded.amount,"
      " lines = d.lines + excluded.lines");
  postings.exec(tx, "rows_charges",
                "INSERT INTO postings (org, kind, ref, amount, at_us)"
                " SELECT org, kind, ref, amount::numeric, at_us::bigint"
                " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])"
                " AS u (org, kind, ref, amount, at_us)");
}

void write_accounts(pg::Tx& tx, const Folded& notes) {
  Rows<11> rows;
  for (const auto& [org, note] : notes.accounts) {
    const account::State& s = note->after;
    rows.add({org, s.credits.to_decimal(), s.charged.to_decimal(), s.pending.to_decimal(),
              s.held_funded.to_decimal(), s.held_open.to_decimal(), s.rate.to_decimal(), s.base.to_decimal(),
              text(s.funded), text(s.open), text(s.era)});
  }
  rows.exec(
      tx, "rows_accounts",
      "INSERT INTO accounts (org, credits, charged, pending, held_funded, held_open, rate, base, funded,"
      " open, era) SELECT org, credits::numeric, charged::numeric, pending::numeric, hf::numeric,"
      " ho::numeric, rate::numeric, base::numeric, funded::bigint, open::bigint, era::bigint"
      " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],"
      " $8::text[], $9::text[], $10::text[], $11::text[]) AS u (org, credits, charged, pending, hf, ho,"
      " rate, base, funded, open, era)"
      " ON CONFLICT (org) DO UPDATE SET credits = excluded.credits, charged = excluded.charged,"
      " pending = excluded.pending, held_funded = excluded.held_funded, held_open = excluded.held_open,"
      " rate = excluded.rate, base = excluded.base, funded = excluded.funded, open = excluded.open,"
      " era = excluded.era");
}

void write_due(pg::Tx& tx, const Folded& notes) {
  Rows<1> gone;
  Rows<2> rows;
  for (const auto& [org, note] : notes.due) {
    if (note->due)
      rows.add({org, text(to_micros(*note->due))});
    else
      gone.add({org});
  }
  gone.exec(tx, "rows_due_gone", "DELETE FROM balance_deadlines WHERE org = ANY ($1::text[])");
  rows.exec(tx, "rows_due",
            "INSERT INTO balance_deadlines (org, due_us)"
            " SELECT org, due_us::bigint FROM unnest($1::text[], $2::text[]) AS u (org, due_us)"
            " ON CONFLICT (org) DO UPDATE SET due_us = excluded.due_us");
}

void write_spend(pg::Tx& tx, const Folded& notes) {
  Rows<14> rows;
  Rows<4> ends;
  for (const auto& [project, note] : notes.spend) {
    const budget::State& s = note->after;
    for (const auto& end : s.exhaustions)
      ends.add({project, text(end.era), text(end.at_s), text(end.by_budget)});
    rows.add({project, s.org.str(), s.total.spent.to_decimal(), s.total.pending.to_decimal(),
              s.total.base.to_decimal(), text(s.month_s), s.month.spent.to_decimal(),
              s.month.pending.to_decimal(), s.held_funded.to_decimal(), s.held_open.to_decimal(),
              s.rate.to_decimal(), text(s.funded), text(s.open), text(s.era)});
  }
  rows.exec(
      tx, "rows_spend",
      "INSERT INTO project_spend (project, org, spent, pending, base, month_s, month_spent, month_pending,"
      " held_funded, held_open, rate, funded, open, era) SELECT project, org, spent::numeric,"
      " pending::numeric, base::numeric, month_s::bigint, month_spent::numeric, month_pending::numeric,"
      " hf::numeric, ho::numeric, rate::numeric, funded::bigint, open::bigint, era::bigint"
      " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],"
      " $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[]) AS u"
      " (project, org, spent, pending, base, month_s, month_spent, month_pending, hf, ho, rate, funded,"
      " open, era) ON CONFLICT (project) DO UPDATE SET org = excluded.org, spent = excluded.spent,"
      " pending = excluded.pending, base = excluded.base, month_s = excluded.month_s,"
      " month_spent = excluded.month_spent, month_pending = excluded.month_pending,"
      " held_funded = excluded.held_funded, held_open = excluded.held_open, rate = excluded.rate,"
      " funded = excluded.funded, open = excluded.open, era = excluded.era");
  // Those that lines of open starts ended with; what is not in this list any more has none.
  ends.exec(
      tx, "rows_spend_ends",
      "INSERT INTO spend_ends (project, era, at_s, by_budget)"
      " SELECT project, era::bigint, at_s::bigint, by_budget::boolean"
      " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS u (project, era, at_s, by_budget)"
      " ON CONFLICT DO NOTHING");
}

void write_budget_due(pg::Tx& tx, const Folded& notes) {
  Rows<1> gone;
  Rows<3> rows;
  for (const auto& [project, note] : notes.budget_due) {
    if (note->due)
      rows.add({project, note->org.str(), text(to_micros(*note->due))});
    else
      gone.add({project});
  }
  gone.exec(tx, "rows_budget_due_gone", "DELETE FROM budget_deadlines WHERE project = ANY ($1::text[])");
  rows.exec(tx, "rows_budget_due",
            "INSERT INTO budget_deadlines (project, org, due_us) SELECT project, org, due_us::bigint"
            " FROM unnest($1::text[], $2::text[], $3::text[]) AS u (project, org, due_us)"
            " ON CONFLICT (project) DO UPDATE SET org = excluded.org, due_us = excluded.due_us");
}

}  // namespace

void write_rows(pg::Tx& tx, const std::vector<std::any>& staged) {
  const Folded notes = fold(staged);
  write_starts(tx, notes);
  write_facts(tx, notes);
  write_stored(tx, notes);
  write_bills(tx, notes);
  write_accounts(tx, notes);
  write_due(tx, notes);
  write_spend(tx, notes);
  write_budget_due(tx, notes);
  write_storage_due(tx, notes);
}

}  // namespace nodus::metering
