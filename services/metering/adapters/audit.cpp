#include "services/metering/adapters/audit.hpp"

#include <algorithm>
#include <iterator>

#include "services/metering/adapters/postgres/ledger.hpp"
#include "services/metering/adapters/rebuild.hpp"

namespace nodus::metering {

namespace {

struct Question {
  const char* name;
  const char* sql;  // one row a fault, described in its first column
};

// Each is one statement, so it sees one moment of a running service.
constexpr Question kQuestions[] = {
    {"amount = rate × seconds, 0 when waived",
     "SELECT sandbox_uid || '/' || start FROM bill_lines"
     " WHERE amount <> CASE WHEN waived THEN 0 ELSE rate * (to_s - from_s) END"},
    {"no two intervals of a Sandbox overlap",
     "SELECT sandbox_uid || '/' || start FROM (SELECT sandbox_uid, start, from_s, lag(to_s) OVER"
     " (PARTITION BY sandbox_uid ORDER BY from_s, to_s) AS previous FROM (SELECT sandbox_uid, start, from_s, "
     "to_s"
     " FROM bill_lines UNION ALL SELECT sandbox_uid, start, from_s, 9223372036854775807 FROM starts WHERE "
     "open UNION ALL SELECT sandbox_uid, start, from_s, 9223372036854775807 FROM stored) i)"
     " l WHERE previous > from_s"},
    {"no gap within a start",
     "SELECT sandbox_uid || '/' || start FROM bill_lines GROUP BY sandbox_uid, start"
     " HAVING sum(to_s - from_s) <> max(to_s) - min(from_s)"},
    {"each charge is posted once, with the sum of its lines",
     "SELECT coalesce(p.ref, l.ref) FROM (SELECT ref, amount FROM postings WHERE kind = 'Charge') p FULL JOIN"
     " (SELECT sandbox_uid || '/' || start AS ref, sum(amount) AS amount FROM bill_lines WHERE kind <> "
     "'Storage' GROUP BY 1) l"
     " ON l.ref = p.ref WHERE p.ref IS NULL OR coalesce(-l.amount, 0) <> p.amount"},
    {"what is stored is posted with the sum of its lines",
     "SELECT coalesce(p.ref, l.ref) FROM (SELECT split_part(ref, '/', 1) || '/' || split_part(ref, '/', 2) AS"
     " ref, sum(amount) AS amount FROM postings WHERE kind = 'Storage' GROUP BY 1) p FULL JOIN"
     " (SELECT sandbox_uid || '/' || start AS ref, sum(amount) AS amount FROM bill_lines WHERE kind ="
     " 'Storage' GROUP BY 1) l ON l.ref = p.ref WHERE coalesce(-l.amount, 0) <> coalesce(p.amount, 0)"},
    {"nothing is stored of a Sandbox that holds a slot",
     "SELECT t.sandbox_uid FROM stored t JOIN starts s ON s.sandbox_uid = t.sandbox_uid AND s.open"},
    {"daily sums = sums of the lines",
     "SELECT org FROM (SELECT org, day, project, kind, reason, late_in, seconds, amount,"
     " lines FROM bill_days) d FULL JOIN (SELECT org, from_s / 86400 AS day, project, kind, reason,"
     " coalesce(late_in, 0) AS late_in, sum(to_s - from_s) AS seconds, sum(amount) AS amount, count(*) AS "
     "lines"
     " FROM bill_lines GROUP BY 1, 2, 3, 4, 5, 6) l USING (org, day, project, kind, reason, late_in)"
     " WHERE (d.seconds, d.amount, d.lines) IS DISTINCT FROM (l.seconds, l.amount, l.lines)"},
    {"an invoice's lines add up to its total, in whole cents",
     "SELECT i.number FROM invoices i LEFT JOIN (SELECT number, sum(amount) AS amount FROM invoice_lines"
     " GROUP BY number) l USING (number) WHERE i.total IS DISTINCT FROM l.amount OR i.total <> "
     "round(i.total, 2)"},
    {"numbers of invoices have no gap",
     "SELECT c.issuer FROM invoice_counters c LEFT JOIN invoices i USING (issuer) GROUP BY c.issuer, c.last"
     " HAVING count(i.number) <> c.last OR max(i.sequence) <> c.last OR min(i.sequence) <> 1"},
    {"balance = sum of postings",
     "SELECT coalesce(a.org, p.org) FROM accounts a FULL JOIN (SELECT org, sum(amount) AS balance FROM "
     "postings"
     " GROUP BY org) p ON p.org = a.org WHERE coalesce(a.credits - a.charged, 0) <> coalesce(p.balance, 0)"},
    {"no balance below zero", "SELECT org FROM accounts WHERE credits < charged"},
    {"no balance was below zero after any posting",
     "SELECT org || ' after entry ' || id FROM (SELECT e.org, e.id, sum(-l.amount) OVER (PARTITION BY e.org"
     " ORDER BY e.id) AS balance FROM ledger_entries e JOIN ledger_lines l ON l.entry = e.id"
     " WHERE l.account = 'CustomerCredit') b WHERE balance < 0"},
    {"every posting balances, in two lines or more",
     "SELECT e.kind || ' ' || e.org || '/' || e.ref FROM ledger_entries e LEFT JOIN ledger_lines l"
     " ON l.entry = e.id GROUP BY e.id HAVING count(l.entry) < 2 OR sum(l.amount) <> 0"},
    {"no line without its posting",
     "SELECT l.entry::text FROM ledger_lines l LEFT JOIN ledger_entries e ON e.id = l.entry WHERE e.id IS "
     "NULL"},
    {"ledger = balance",
     "SELECT coalesce(a.org, l.org) FROM accounts a FULL JOIN (SELECT e.org, -sum(l.amount) AS balance FROM"
     " ledger_entries e JOIN ledger_lines l ON l.entry = e.id WHERE l.account = 'CustomerCredit' GROUP BY"
     " e.org) l ON l.org = a.org WHERE coalesce(a.credits - a.charged, 0) <> coalesce(l.balance, 0)"},
    {"the ledger sums to zero",
     "SELECT 'the sum is ' || sum(amount) FROM ledger_lines HAVING sum(amount) <> 0"},
    {"credits = postings",
     "SELECT coalesce(c.org || '/' || c.id, p.org || '/' || p.ref) FROM credits c FULL JOIN (SELECT * FROM"
     " postings WHERE kind = 'Credit') p ON p.org = c.org AND p.ref = c.id WHERE c.amount IS DISTINCT FROM"
     " p.amount"},
    {"no interval is negative, and each start has one end",
     "SELECT sandbox_uid || '/' || start FROM bill_lines WHERE to_s <= from_s UNION ALL"
     " SELECT s.sandbox_uid || '/' || s.start FROM starts s JOIN bill_lines l USING (sandbox_uid, start)"},
    {"the brake on stops for money is off",
     "SELECT reason FROM (SELECT engaged, reason FROM brake_changes ORDER BY id DESC LIMIT 1) b WHERE "
     "engaged"},
    {"spend of a project: rates, holds and counts of the starts",
     "SELECT p.project FROM project_spend p LEFT JOIN (SELECT project,"
     " sum(rate) FILTER (WHERE open) AS rate, sum(rate * from_s) FILTER (WHERE open) AS base,"
     " sum(hold) FILTER (WHERE open) AS held_open, count(*) FILTER (WHERE open) AS open,"
     " sum(hold) FILTER (WHERE NOT open) AS held_funded, count(*) FILTER (WHERE NOT open) AS funded"
     " FROM (SELECT project, s.rate, s.from_s, s.hold, s.open FROM starts s JOIN project_spend USING "
     "(project)"
     " WHERE s.budgeted AND (NOT s.open OR (NOT s.capped AND s.budget_era = project_spend.era)) UNION ALL"
     " SELECT project, t.rate, t.from_s, 0, true FROM stored t JOIN project_spend p USING (project)"
     " WHERE t.waived = '' AND t.budget_era = p.era) live GROUP BY project) s USING (project)"
     " WHERE (p.rate, p.base, p.held_open, p.open, p.held_funded, p.funded) IS DISTINCT FROM"
     " (coalesce(s.rate, 0), coalesce(s.base, 0), coalesce(s.held_open, 0), coalesce(s.open, 0),"
     " coalesce(s.held_funded, 0), coalesce(s.funded, 0))"},
    {"live lines: rates, holds and counts of the starts",
     "SELECT a.org FROM accounts a LEFT JOIN (SELECT org,"
     " sum(rate) FILTER (WHERE open) AS rate, sum(rate * from_s) FILTER (WHERE open) AS base,"
     " sum(hold) FILTER (WHERE open) AS held_open, count(*) FILTER (WHERE open) AS open,"
     " sum(hold) FILTER (WHERE NOT open) AS held_funded, count(*) FILTER (WHERE NOT open) AS funded"
     " FROM (SELECT s.org, s.rate, s.from_s, s.hold, s.open FROM starts s JOIN accounts USING (org)"
     " LEFT JOIN project_spend p USING (project) WHERE NOT s.open OR (NOT s.capped AND s.era = accounts.era"
     " AND (NOT s.budgeted OR s.budget_era = p.era)) UNION ALL SELECT t.org, t.rate, t.from_s, 0, true"
     " FROM stored t JOIN accounts USING (org) JOIN project_spend p USING (project) WHERE t.waived = ''"
     " AND t.era = accounts.era AND t.budget_era = p.era) live GROUP BY org) s ON s.org = a.org"
     " WHERE (a.rate, a.base, a.held_open, a.open, a.held_funded, a.funded) IS DISTINCT FROM"
     " (coalesce(s.rate, 0), coalesce(s.base, 0), coalesce(s.held_open, 0), coalesce(s.open, 0),"
     " coalesce(s.held_funded, 0), coalesce(s.funded, 0))"},
};

}  // namespace

Result<std::vector<Check>> audit(pg::Pool& pool, eventlog::EventLog& log) {
  std::vector<Check> checks;
  for (const auto& question : kQuestions) {
    auto check = pool.with_tx([&](pg::Tx& tx) -> Result<Check> {
      const auto rows =
          tx.exec(std::string("SELECT count(*), min(fault) FROM (") + question.sql + ") f (fault)");
      return Check{question.name, rows[0][0].as<int64_t>(), rows[0][1].is_null() ? "" : rows[0][1].c_str()};
    });
    if (!check) return std::unexpected(std::move(check.error()));
    checks.push_back(std::move(*check));
  }
  auto replayed = rebuild_check(pool, log);
  if (!replayed) return std::unexpected(std::move(replayed.error()));
  std::ranges::move(*replayed, std::back_inserter(checks));
  auto verdict = verify_ledger(pool, "");
  if (!verdict) return std::unexpected(std::move(verdict.error()));
  Check seals{"the seals of the ledger hold", std::ssize(verdict->faults)};
  if (!verdict->faults.empty()) seals.example = to_string(verdict->faults.front());
  checks.push_back(std::move(seals));
  return checks;
}

}  // namespace nodus::metering
