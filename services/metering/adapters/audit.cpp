#include "services/metering/adapters/audit.hpp"

#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/app/streams.hpp"

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
     "open) i)"
     " l WHERE previous > from_s"},
    {"no gap within a start",
     "SELECT sandbox_uid || '/' || start FROM bill_lines GROUP BY sandbox_uid, start"
     " HAVING sum(to_s - from_s) <> max(to_s) - min(from_s)"},
    {"each charge is posted once, with the sum of its lines",
     "SELECT coalesce(p.ref, l.ref) FROM (SELECT ref, amount FROM postings WHERE kind = 'Charge') p FULL JOIN"
     " (SELECT sandbox_uid || '/' || start AS ref, sum(amount) AS amount FROM bill_lines GROUP BY 1) l"
     " ON l.ref = p.ref WHERE p.ref IS NULL OR coalesce(-l.amount, 0) <> p.amount"},
    {"daily sums = sums of the lines",
     "SELECT org FROM (SELECT org, day, project, kind, reason, late_in, seconds, amount,"
     " lines FROM bill_days) d FULL JOIN (SELECT org, from_s / 86400 AS day, project, kind, reason,"
     " coalesce(late_in, 0) AS late_in, sum(to_s - from_s) AS seconds, sum(amount) AS amount, count(*) AS "
     "lines"
     " FROM bill_lines GROUP BY 1, 2, 3, 4, 5, 6) l USING (org, day, project, kind, reason, late_in)"
     " WHERE (d.seconds, d.amount, d.lines) IS DISTINCT FROM (l.seconds, l.amount, l.lines)"},
    {"balance = sum of postings",
     "SELECT coalesce(a.org, p.org) FROM accounts a FULL JOIN (SELECT org, sum(amount) AS balance FROM "
     "postings"
     " GROUP BY org) p ON p.org = a.org WHERE coalesce(a.credits - a.charged, 0) <> coalesce(p.balance, 0)"},
    {"no balance below zero", "SELECT org FROM accounts WHERE credits < charged"},
    {"live lines: rates, holds and counts of the starts",
     "SELECT a.org FROM accounts a LEFT JOIN (SELECT org,"
     " sum(rate) FILTER (WHERE open) AS rate, sum(rate * from_s) FILTER (WHERE open) AS base,"
     " sum(hold) FILTER (WHERE open) AS held_open, count(*) FILTER (WHERE open) AS open,"
     " sum(hold) FILTER (WHERE NOT open) AS held_funded, count(*) FILTER (WHERE NOT open) AS funded"
     " FROM (SELECT s.* FROM starts s JOIN accounts USING (org) WHERE NOT s.open OR (NOT s.capped"
     " AND s.era = accounts.era)) live GROUP BY org) s ON s.org = a.org"
     " WHERE (a.rate, a.base, a.held_open, a.open, a.held_funded, a.funded) IS DISTINCT FROM"
     " (coalesce(s.rate, 0), coalesce(s.base, 0), coalesce(s.held_open, 0), coalesce(s.open, 0),"
     " coalesce(s.held_funded, 0), coalesce(s.funded, 0))"},
};

template <class Aggregate>
Result<std::string> differs(eventlog::EventLog& log, const std::string& stream) {
  const auto head = log.head(stream);
  if (!head) return std::unexpected(head.error());
  typename Aggregate::State state;
  for (int64_t version = 0; version < head->version;) {
    const auto page = log.read_stream(stream, version, 500);
    if (!page) return std::unexpected(page.error());
    if (page->empty()) return "ends at version " + std::to_string(version);
    for (const auto& recorded : *page) {
      if (recorded.version != version + 1) return "misses version " + std::to_string(version + 1);
      if (recorded.version > head->version) break;
      const auto event = Aggregate::decode(recorded.type, recorded.payload);
      if (!event) return event.error().message;
      Aggregate::evolve(state, *event);
      version = recorded.version;
    }
  }
  const auto kept = head->version == 0 ? Result<typename Aggregate::State>(typename Aggregate::State())
                                       : Aggregate::decode_state(head->state);
  if (!kept) return kept.error().message;
  return state == *kept ? "" : "the rebuilt state is another";
}

Result<Check> rebuild(pg::Pool& pool, eventlog::EventLog& log) {
  Check check{"rebuild from events = head rows"};
  for (std::string after;;) {
    const auto streams = pool.with_tx([&](pqxx::work& tx) -> Result<std::vector<std::string>> {
      std::vector<std::string> names;
      for (const auto& row :
           tx.exec_params("SELECT stream FROM heads WHERE stream > $1 ORDER BY stream LIMIT 500", after))
        names.emplace_back(row[0].c_str());
      return names;
    });
    if (!streams) return std::unexpected(streams.error());
    if (streams->empty()) return check;
    for (const auto& stream : *streams) {
      const auto difference =
          stream.starts_with("charge/") ? differs<Charges>(log, stream) : differs<Accounts>(log, stream);
      if (!difference) return std::unexpected(difference.error());
      if (difference->empty()) continue;
      ++check.faults;
      check.example = stream + ": " + *difference;
    }
    after = streams->back();
  }
}

}  // namespace

Result<std::vector<Check>> audit(pg::Pool& pool, eventlog::EventLog& log) {
  std::vector<Check> checks;
  for (const auto& question : kQuestions) {
    auto check = pool.with_tx([&](pqxx::work& tx) -> Result<Check> {
      const auto rows =
          tx.exec(std::string("SELECT count(*), min(fault) FROM (") + question.sql + ") f (fault)");
      return Check{question.name, rows[0][0].as<int64_t>(), rows[0][1].is_null() ? "" : rows[0][1].c_str()};
    });
    if (!check) return std::unexpected(std::move(check.error()));
    checks.push_back(std::move(*check));
  }
  auto replayed = rebuild(pool, log);
  if (!replayed) return std::unexpected(std::move(replayed.error()));
  checks.push_back(std::move(*replayed));
  return checks;
}

}  // namespace nodus::metering
