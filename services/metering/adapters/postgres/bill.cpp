#include "services/metering/adapters/postgres/bill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <tuple>

#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/app/calendar.hpp"

namespace nodus::metering {

namespace {

constexpr std::array<std::string_view, 6> kBy{"line", "project", "sandbox", "day", "reason", "label"};

// What a query matches, as SQL over rows with the columns of bill_lines.
class Sql {
 public:
  Sql(pg::Tx& tx, const BillQuery& query, MoneySecond now_s) : tx_(tx), query_(query) {
    at_s_ = std::max(query.from_s, std::min(query.to_s.value_or(now_s), now_s));
  }
  MoneySecond at_s() const { return at_s_; }

  // Lines and open lines within [from, to), cut to it.
  // `which`: of the posted ones, more of a WHERE clause and what follows it.
  std::string rows(const std::string& which = "") const {
    const auto& [from, to] = std::tie(query_.from_s, query_.to_s);
    return fmt::format(
        "(SELECT project, sandbox_uid, sandbox_name, start, ordinal, kind, greatest(from_s, {0}) AS from_s,"
        " {1} AS to_s, rate, reason, false AS open, from_s AS place FROM bill_lines b WHERE {2}{3})"
        " UNION ALL {4}",
        from, to ? fmt::format("least(to_s, {})", *to) : "to_s", within(from, to), which, open_rows());
  }
  // The same of the daily sums: seconds and amount instead of an interval. Days are whole.
  std::string sums(int64_t from_day, std::optional<int64_t> to_day) const {
    return fmt::format(
        "SELECT project, day, reason, seconds, amount, false AS open FROM bill_days WHERE {} AND day >= {}{}",
        whose(), from_day, to_day ? fmt::format(" AND day < {}", *to_day) : "");
  }
  std::string lines(MoneySecond from, MoneySecond to) const {
    return fmt::format(
        "SELECT project, from_s / 86400 AS day, reason, least(to_s, {1}) - greatest(from_s, {0}) AS seconds,"
        " {3} AS amount, false AS open FROM bill_lines b WHERE {2}",
        from, to, within(from, to),
        fmt::format(kAmount, fmt::format("(least(to_s, {}) - greatest(from_s, {}))", to, from)));
  }
  std::string open_rows() const {
    return fmt::format(
        "SELECT project COLLATE \"C\", sandbox_uid COLLATE \"C\", sandbox_name COLLATE \"C\", start, ordinal,"
        " kind, greatest(from_s, {0}), to_s, rate, reason COLLATE \"C\", true, from_s"
        " FROM open_lines({1}, {2}) b WHERE {3} AND to_s > {0}",
        query_.from_s, quote(query_.org.str()), at_s_, whose() + labelled());
  }
  std::string quote(const std::string& text) const { return tx_.quote(text); }
  static std::string amount_of(const char* seconds) { return fmt::format(kAmount, seconds); }

 private:
  static constexpr const char* kAmount = "CASE WHEN reason = 'Charged' THEN rate * {} ELSE 0 END";

  std::string whose() const {
    std::string text = "org = " + quote(query_.org.str());
    if (query_.project) text += " AND project = " + quote(query_.project->str());
    if (!query_.sandbox.empty()) text += " AND sandbox_name = " + quote(query_.sandbox);
    return text;
  }
  std::string labelled() const {
    if (query_.labels.empty()) return "";
    boost::json::object labels;
    for (const auto& [key, value] : query_.labels) labels[key] = value;
    return " AND EXISTS (SELECT 1 FROM start_facts f WHERE f.sandbox_uid = b.sandbox_uid AND f.start = "
           "b.start"
           " AND f.labels @> " +
           quote(boost::json::serialize(labels)) + "::jsonb)";
  }
  // No line spans midnight, so those that reach into the span begin on its first day.
  std::string within(MoneySecond from, std::optional<MoneySecond> to) const {
    return whose() + labelled() +
           fmt::format(" AND from_s >= {} AND to_s > {}", from / kDaySeconds * kDaySeconds, from) +
           (to ? fmt::format(" AND from_s < {}", *to) : "");
  }

  pg::Tx& tx_;
  const BillQuery& query_;
  MoneySecond at_s_ = 0;
};

// Everything that matches as (project, day, reason, seconds, amount, open): from the daily sums where whole
// days are asked for, from lines at the edges, for one Sandbox and by labels.
std::string summary(const Sql& sql, const BillQuery& query) {
  const std::string open = fmt::format(
      "SELECT project, from_s / 86400, reason, to_s - from_s, {}, open FROM ({}) o"
      " (project, sandbox_uid, sandbox_name, start, ordinal, kind, from_s, to_s, rate, reason, open, place)",
      Sql::amount_of("(to_s - from_s)"), sql.open_rows());
  if (!query.sandbox.empty() || !query.labels.empty())
    return fmt::format(
        "SELECT project, from_s / 86400 AS day, reason, to_s - from_s AS seconds, {} AS amount,"
        " open FROM ({}) r",
        Sql::amount_of("(to_s - from_s)"), sql.rows());
  const int64_t first = (query.from_s + kDaySeconds - 1) / kDaySeconds;
  std::optional<int64_t> last;
  if (query.to_s) last = *query.to_s / kDaySeconds;
  if (last && *last < first) return sql.lines(query.from_s, *query.to_s) + " UNION ALL " + open;
  std::string text = sql.sums(first, last) + " UNION ALL " + open;
  if (first * kDaySeconds > query.from_s)
    text += " UNION ALL " + sql.lines(query.from_s, first * kDaySeconds);
  if (last && *last * kDaySeconds < *query.to_s)
    text += " UNION ALL " + sql.lines(*last * kDaySeconds, *query.to_s);
  return text;
}

// ---- pages

template <class Number>
bool number(std::string_view text, Number& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

struct Place {  // of a line in the order of the bill
  int64_t from_s = -1;
  std::string uid;
  int64_t start = 0;
  int ordinal = 0;
};

std::optional<Place> place_of(std::string_view text) {
  Place place;
  std::array<std::string_view, 3> parts;
  for (auto& part : parts) {
    const size_t cut = text.find('_');
    if (cut == std::string_view::npos) return std::nullopt;
    part = text.substr(0, cut);
    text.remove_prefix(cut + 1);
  }
  if (!number(parts[0], place.from_s) || !number(parts[1], place.start) || !number(parts[2], place.ordinal))
    return std::nullopt;
  place.uid = text;
  return place;
}

std::unexpected<Error> bad_token() {
  Error error{Code::kBadRequest, "ContinueInvalid",
              "\"continue\" is not one that this bill gave; leave it out."};
  error.causes.push_back({"continue", "FieldValueInvalid", "must be the \"continue\" of the page before"});
  return std::unexpected(std::move(error));
}

// A token names what it pages by, so that one of another list is refused.
Result<std::optional<std::string>> after_of(const BillQuery& query) {
  if (query.after.empty()) return std::nullopt;
  const std::string prefix = std::string(to_string(query.by)) + ":";
  if (query.after.size() > 400 || !query.after.starts_with(prefix)) return bad_token();
  std::string rest = query.after.substr(prefix.size());
  int64_t day = 0;
  if (query.by == BillBy::kDay && !number(rest, day)) return bad_token();
  if (query.by == BillBy::kLine && !place_of(rest)) return bad_token();
  for (const char c : rest)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) return bad_token();
  return rest;
}

LineKind kind_of(const std::string& text) {
  for (const auto kind : {LineKind::kStarting, LineKind::kStopping, LineKind::kStorage})
    if (text == to_string(kind)) return kind;
  return LineKind::kRunning;
}

void read_lines(pg::Tx& tx, const Sql& sql, const BillQuery& query, const std::optional<std::string>& after,
                Bill& bill) {
  const Place place = place_of(after.value_or("")).value_or(Place());
  const auto beyond = fmt::format("(from_s, sandbox_uid, start, ordinal) > ({}, {}, {}, {})", place.from_s,
                                  sql.quote(place.uid), place.start, place.ordinal);
  const auto first = fmt::format(" LIMIT {}", query.limit + 1);
  const std::string posted =
      " AND " + beyond + " ORDER BY b.from_s, b.sandbox_uid, b.start, b.ordinal" + first;
  for (const auto& row : tx.exec(
           fmt::format("SELECT project, sandbox_name, sandbox_uid, start, ordinal, kind, from_s, to_s, rate,"
                       " ({0})::numeric(38,12), reason, open, place FROM ({1}) r"
                       " WHERE (place, sandbox_uid, start, ordinal) > ({2}, {3}, {4}, {5})"
                       " ORDER BY place, sandbox_uid, start, ordinal{6}",
                       Sql::amount_of("(to_s - from_s)"), sql.rows(posted), place.from_s,
                       sql.quote(place.uid), place.start, place.ordinal, first))) {
    if (std::cmp_equal(bill.lines.size(), query.limit)) {
      const auto& last = bill.lines.back();
      bill.next = fmt::format("line:{}_{}_{}_{}", bill.next, last.start, last.ordinal, last.uid.str());
      return;
    }
    const std::string reason = row[10].c_str();
    bill.lines.push_back({ProjectId(row[0].c_str()),
                          row[1].c_str(),
                          SandboxUid(row[2].c_str()),
                          row[3].as<int64_t>(),
                          row[4].as<int>(),
                          {kind_of(row[5].c_str()), row[6].as<int64_t>(), row[7].as<int64_t>(),
                           money_of(row[9]), reason != "Charged"},
                          rate_of(row[8]),
                          reason,
                          row[11].as<bool>()});
    bill.next = row[12].c_str();  // of the last line so far
  }
  bill.next.clear();
}

void read_groups(pg::Tx& tx, const Sql& sql, const BillQuery& query, const std::optional<std::string>& after,
                 Bill& bill) {
  std::string source, key, more = "''";
  if (query.by == BillBy::kSandbox) {
    source = fmt::format(
        "SELECT project, sandbox_name, sandbox_uid, reason, to_s - from_s AS seconds,"
        " {} AS amount, open FROM ({}) r",
        Sql::amount_of("(to_s - from_s)"), sql.rows());
    key = "sandbox_uid";
    more = "min(sandbox_name)";
  } else if (query.by == BillBy::kLabel) {
    source = fmt::format(
        "SELECT project, coalesce('=' || (f.labels ->> {}), '') COLLATE \"C\" AS label, reason,"
        " to_s - from_s AS seconds, {} AS amount, open FROM ({}) r LEFT JOIN start_facts f"
        " USING (sandbox_uid, start)",
        sql.quote(query.label), Sql::amount_of("(to_s - from_s)"), sql.rows());
    key = "label";
  } else {
    source = summary(sql, query);
    key = query.by == BillBy::kProject ? "project" : query.by == BillBy::kDay ? "day" : "reason";
  }
  std::string rest;
  if (after) rest = " WHERE " + key + " > " + (query.by == BillBy::kDay ? *after : sql.quote(*after));
  for (const auto& row : tx.exec(fmt::format(
           "SELECT {0}, min(project), {1}, coalesce(sum(seconds) FILTER (WHERE reason = 'Charged'), 0),"
           " coalesce(sum(seconds) FILTER (WHERE reason <> 'Charged'), 0), sum(amount)::numeric(38,12),"
           " coalesce(sum(amount) FILTER (WHERE open), 0)::numeric(38,12)"
           " FROM ({2}) s{3} GROUP BY 1 ORDER BY 1 LIMIT {4}",
           key, more, source, rest, query.limit + 1))) {
    if (std::cmp_equal(bill.groups.size(), query.limit)) {
      bill.next = std::string(to_string(query.by)) + ":" + bill.groups.back().key;
      return;
    }
    bill.groups.push_back({row[0].c_str(), ProjectId(row[1].c_str()), row[2].c_str(), row[3].as<int64_t>(),
                           row[4].as<int64_t>(), money_of(row[5]), money_of(row[6])});
  }
}

Money balance_at(pg::Tx& tx, const OrgId& org, MoneySecond at_s) {
  const auto rows = tx.exec_params(
      "SELECT (credits - charged - pending - rate * CASE WHEN rate > 0"
      " THEN least($2, div(credits - charged - pending - held_funded + base, rate)) ELSE 0 END"
      " + base)::numeric(38,12) FROM accounts WHERE org = $1",
      org.str(), at_s);
  return rows.empty() ? Money() : money_of(rows[0][0]);
}

}  // namespace

std::string_view to_string(BillBy by) {
  return kBy[static_cast<size_t>(by)];
}

Result<Bill> read_bill(pg::Pool& pool, const BillQuery& query, Instant now) {
  const auto after = after_of(query);
  if (!after) return std::unexpected(after.error());
  const MoneySecond now_s = to_money_second(now);
  BillQuery exact = query;  // nothing is posted for what is still to come
  if (exact.to_s && *exact.to_s > now_s) exact.to_s.reset();
  return pool.with_tx([&](pg::Tx& tx) -> Result<Bill> {
    tx.exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const Sql sql(tx, exact, now_s);
    Bill bill;
    bill.at_s = sql.at_s();
    if (query.by == BillBy::kLine)
      read_lines(tx, sql, exact, *after, bill);
    else
      read_groups(tx, sql, exact, *after, bill);
    bill.total = money_of(tx.exec1(
        fmt::format("SELECT coalesce(sum(amount), 0)::numeric(38,12) FROM ({}) s", summary(sql, exact)))[0]);
    bill.balance = balance_at(tx, query.org, now_s);
    return bill;
  });
}

}  // namespace nodus::metering
