#include "services/metering/adapters/postgres/read_models.hpp"
#include "services/metering/adapters/postgres/rows.hpp"

namespace nodus::metering {

namespace {

void write_start(pqxx::work& tx, const SandboxUid& uid, const std::optional<charge::Start>& start) {
  if (!start) {
    tx.exec_params("DELETE FROM starts WHERE sandbox_uid = $1", uid.str());
    return;
  }
  const auto& slot = start->slot;
  tx.exec_params(
      "INSERT INTO starts (sandbox_uid, start, org, project, sandbox_name, open, rate, hold, started_us,"
      " stopping_us, from_s, cap_s, cap_due_s, era, capped, stop_ordered, paid_until_s)"
      " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $13, $14, $15, $16)"
      " ON CONFLICT (sandbox_uid) DO UPDATE SET start = excluded.start, org = excluded.org,"
      " project = excluded.project, sandbox_name = excluded.sandbox_name, open = excluded.open,"
      " rate = excluded.rate, hold = excluded.hold, started_us = excluded.started_us,"
      " stopping_us = excluded.stopping_us, from_s = excluded.from_s, cap_s = excluded.cap_s,"
      " cap_due_s = CASE WHEN starts.start = excluded.start AND starts.open THEN starts.cap_due_s"
      " ELSE excluded.cap_s END,"
      " era = excluded.era, capped = excluded.capped, stop_ordered = excluded.stop_ordered,"
      " paid_until_s = excluded.paid_until_s",
      uid.str(), slot.start, slot.org.str(), slot.project.str(), start->sandbox_name,
      start->phase == charge::Phase::kOpen, start->rate.to_decimal(), start->hold.to_decimal(),
      micros_of(start->times.started), micros_of(start->times.stopping), start->from_s, start->cap_s,
      start->era, start->capped, start->stop_ordered, start->paid_until_s);
}

void write_bill(pqxx::work& tx, const charge::ChargeClosed& closed, const std::string& sandbox_name) {
  int ordinal = 0;
  const auto& slot = closed.slot;
  for (const auto& line : closed.lines)
    tx.exec_params(
        "INSERT INTO bill_lines (sandbox_uid, start, ordinal, org, project, sandbox_name, kind, from_s, to_s,"
        " rate, amount, waived) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        slot.uid.str(), slot.start, ++ordinal, slot.org.str(), slot.project.str(), sandbox_name,
        std::string(to_string(line.kind)), line.from_s, line.to_s, closed.rate.to_decimal(),
        line.amount.to_decimal(), line.waived);
}

void post(pqxx::work& tx, const OrgId& org, const char* kind, const std::string& ref, Money amount,
          Instant at) {
  tx.exec_params("INSERT INTO postings (org, kind, ref, amount, at_us) VALUES ($1, $2, $3, $4, $5)",
                 org.str(), kind, ref, amount.to_decimal(), to_micros(at));
}

void write_due(pqxx::work& tx, const OrgId& org, std::optional<Instant> due) {
  if (due)
    tx.exec_params(
        "INSERT INTO balance_deadlines (org, due_us) VALUES ($1, $2)"
        " ON CONFLICT (org) DO UPDATE SET due_us = excluded.due_us",
        org.str(), to_micros(*due));
  else
    tx.exec_params("DELETE FROM balance_deadlines WHERE org = $1", org.str());
}

void write_account(pqxx::work& tx, const account::State& s) {
  tx.exec_params(
      "INSERT INTO accounts (org, credits, charged, pending, held_funded, held_open, rate, base, funded, "
      "open,"
      " era) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
      " ON CONFLICT (org) DO UPDATE SET credits = excluded.credits, charged = excluded.charged,"
      " pending = excluded.pending, held_funded = excluded.held_funded, held_open = excluded.held_open,"
      " rate = excluded.rate, base = excluded.base, funded = excluded.funded, open = excluded.open,"
      " era = excluded.era",
      s.org.str(), s.credits.to_decimal(), s.charged.to_decimal(), s.pending.to_decimal(),
      s.held_funded.to_decimal(), s.held_open.to_decimal(), s.rate.to_decimal(), s.base.to_decimal(),
      s.funded, s.open, s.era);
}

}  // namespace

void PostgresProjections::charge_changed(eventlog::Unit& unit, const SandboxUid& uid,
                                         const charge::State& before, const charge::State& after,
                                         std::span<const charge::Event> events) {
  unit.project([uid, start = after.current](pqxx::work& tx) { write_start(tx, uid, start); });
  for (const auto& event : events) {
    if (std::holds_alternative<charge::StopDeclined>(
            event))  // perhaps judged while it stopped: judge it again
      unit.project([uid](pqxx::work& tx) {
        tx.exec_params("UPDATE starts SET cap_due_s = cap_s WHERE sandbox_uid = $1", uid.str());
      });
    const auto* closed = std::get_if<charge::ChargeClosed>(&event);
    if (closed == nullptr) continue;
    CHECK(before.current.has_value(), "start {} closed without being funded", closed->slot.start);
    unit.project([closed = *closed, name = before.current->sandbox_name](pqxx::work& tx) {
      write_bill(tx, closed, name);
      post(tx, closed.slot.org, "Charge", closed.slot.uid.str() + "/" + std::to_string(closed.slot.start),
           -closed.amount, closed.at);
    });
  }
}

void PostgresProjections::account_changed(eventlog::Unit& unit, const account::State& after,
                                          std::span<const account::Event> events,
                                          std::optional<Instant> due) {
  for (const auto& event : events) {
    if (const auto* credit = std::get_if<account::CreditPosted>(&event))
      unit.project([c = *credit](pqxx::work& tx) { post(tx, c.org, "Credit", c.id, c.amount, c.at); });
  }
  unit.project([after, due](pqxx::work& tx) {
    write_account(tx, after);
    write_due(tx, after.org, due);
  });
}

void PostgresProjections::deadline_moved(eventlog::Unit& unit, const OrgId& org, std::optional<Instant> due) {
  unit.project([org, due](pqxx::work& tx) { write_due(tx, org, due); });
}

void PostgresProjections::cap_judged(eventlog::Unit& unit, const SandboxUid& uid, Instant now) {
  unit.project([uid, now](pqxx::work& tx) {
    tx.exec_params("UPDATE starts SET cap_due_s = NULL WHERE sandbox_uid = $1 AND cap_due_s <= $2", uid.str(),
                   to_money_second(now));
  });
}

}  // namespace nodus::metering
