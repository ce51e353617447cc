#include "services/metering/adapters/postgres/invoices.hpp"

#include <fmt/format.h>

#include "services/metering/adapters/postgres/rows.hpp"

namespace nodus::metering {

namespace {

constexpr const char* kColumns = "number, issuer, org, month, issued_us, proven_to_s, total::numeric(38,12)";

Invoice invoice_of(const pqxx::row& row) {
  return {row[0].c_str(),
          row[1].c_str(),
          OrgId(row[2].c_str()),
          row[3].as<int>(),
          from_micros(row[4].as<int64_t>()),
          row[5].as<int64_t>(),
          money_of(row[6]),
          {}};
}

// Every command on the organization's starts holds this row too, so what they post is either before the
// month is closed, or late.
bool lock_account(pg::Tx& tx, const OrgId& org) {
  return !tx.exec_params("SELECT 1 FROM heads WHERE stream = $1 FOR UPDATE", "account/" + org.str()).empty();
}

// The first month that is still open; nullopt: nothing was ever used.
std::optional<Month> first_open(pg::Tx& tx, const OrgId& org, MoneySecond now_s) {
  const auto closed = tx.exec_params("SELECT next_month FROM billing_periods WHERE org = $1", org.str());
  if (!closed.empty()) return closed[0][0].as<int>();
  const auto first = tx.exec_params(
      "SELECT least((SELECT min(day) * 86400::bigint FROM bill_days WHERE org = $1),"
      " (SELECT min(from_s) FROM open_lines($1, $2)))",
      org.str(), now_s);
  if (first[0][0].is_null()) return std::nullopt;
  return month_of(first[0][0].as<int64_t>());
}

// How far it is proven that what is open was open: the newest fact of any Sandbox that was applied.
MoneySecond proven_until(pg::Tx& tx, MoneySecond end_s) {
  const auto row = tx.exec1(
      "SELECT coalesce(max((SELECT at_us FROM events WHERE log_partition = p ORDER BY position DESC LIMIT "
      "1)), 0)"
      " / 1000000 FROM log_settings, generate_series(0, partitions - 1) AS p");
  return std::min(row[0].as<int64_t>(), end_s);
}

void estimate(pg::Tx& tx, const OrgId& org, Month month, MoneySecond proven_s) {
  tx.exec_params(
      "INSERT INTO estimates (org, in_month, sandbox_uid, start, ordinal, project, sandbox_name, kind, "
      "from_s, to_s,"
      " rate, amount, waived, reason) SELECT org, $2, sandbox_uid, start, ordinal, project, sandbox_name, "
      "kind,"
      " from_s, to_s, rate, amount, waived, reason FROM open_lines($1, $3) WHERE to_s <= $3",
      org.str(), month, proven_s);
}

std::vector<InvoiceLine> due_lines(pg::Tx& tx, const OrgId& org, Month month) {
  // The month of a day, as the number 202611.
  constexpr const char* kMonth = "to_char(date '1970-01-01' + {}, 'YYYYMM')::integer";
  const auto of_estimates = [&](const char* sign, const char* which) {
    return fmt::format(
        " UNION ALL SELECT {0}, project, kind, reason, {1} (to_s - from_s), {1} amount FROM estimates"
        " WHERE org = $1 AND in_month = {2}",
        fmt::format(fmt::runtime(kMonth), "(from_s / 86400)::integer"), sign, which);
  };
  const std::string due =
      fmt::format(
          "SELECT {} AS month, project, kind, reason, seconds, amount FROM bill_days WHERE org = $1"
          " AND ((late_in = 0 AND day >= $4 AND day < $5) OR late_in = $2)",
          fmt::format(fmt::runtime(kMonth), "day")) +
      of_estimates("", "$2") + of_estimates("-", "$3");
  const Month before = month % 100 == 1 ? month - 89 : month - 1;
  std::vector<InvoiceLine> lines;
  for (const auto& row : tx.exec_params(
           "SELECT month, project, kind, reason, sum(seconds)::bigint, sum(amount)::numeric(38,12) FROM (" +
               due +
               ") d GROUP BY 1, 2, 3, 4 HAVING sum(seconds) <> 0 OR sum(amount) <> 0"
               " ORDER BY month = $2 DESC, 1, 2, 3, 4",
           org.str(), month, before, begin_of(month) / kDaySeconds, end_of(month) / kDaySeconds))
    lines.push_back({row[0].as<int>() == month ? "Usage" : "Correction", row[0].as<int>(),
                     ProjectId(row[1].c_str()), row[2].c_str(), row[3].c_str(), row[4].as<int64_t>(),
                     money_of(row[5])});
  return lines;
}

// To whole cents, half away from zero, by a line of its own.
Money round_off(std::vector<InvoiceLine>& lines, Month month) {
  constexpr int128 kCent = 10'000'000'000;
  Money exact;
  for (const auto& line : lines) exact += line.amount;
  const int128 size = exact.pico() < 0 ? -exact.pico() : exact.pico();
  const int128 cents = (size + kCent / 2) / kCent;
  const Money total = Money::from_pico((exact.pico() < 0 ? -cents : cents) * kCent);
  lines.push_back({"Rounding", month, ProjectId(), "", "Charged", 0, total - exact});
  return total;
}

std::string take_number(pg::Tx& tx, const std::string& issuer, int64_t& sequence) {
  sequence = tx.exec_params1(
                   "INSERT INTO invoice_counters AS c (issuer, last) VALUES ($1, 1)"
                   " ON CONFLICT (issuer) DO UPDATE SET last = c.last + 1 RETURNING last",
                   issuer)[0]
                 .as<int64_t>();
  return fmt::format("{}-{:08}", issuer, sequence);
}

ClosedMonth close_month(pg::Tx& tx, const OrgId& org, Month month, const std::string& issuer, Instant now) {
  const MoneySecond end_s = end_of(month), proven_s = proven_until(tx, end_s);
  estimate(tx, org, month, proven_s);
  auto lines = due_lines(tx, org, month);
  ClosedMonth closed{org, month, "", Money()};
  if (!lines.empty()) {
    int64_t sequence = 0;
    closed.total = round_off(lines, month);
    closed.number = take_number(tx, issuer, sequence);
    tx.exec_params(
        "INSERT INTO invoices (number, issuer, sequence, org, month, issued_us, proven_to_s, total)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        closed.number, issuer, sequence, org.str(), month, to_micros(now), proven_s,
        closed.total.to_decimal());
    int ordinal = 0;
    for (const auto& line : lines)
      tx.exec_params(
          "INSERT INTO invoice_lines (number, ordinal, type, month, project, kind, reason, seconds, amount)"
          " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
          closed.number, ++ordinal, line.type, line.month, line.project.str(), line.kind, line.reason,
          line.seconds, line.amount.to_decimal());
  }
  tx.exec_params(
      "INSERT INTO billing_periods (org, closed_to_s, next_month) VALUES ($1, $2, $3)"
      " ON CONFLICT (org) DO UPDATE SET closed_to_s = excluded.closed_to_s, next_month = excluded.next_month",
      org.str(), end_s, next_month(month));
  return closed;
}

ClosedMonth closed_before(pg::Tx& tx, const OrgId& org, Month month) {
  const auto rows =
      tx.exec_params("SELECT number, total FROM invoices WHERE org = $1 AND month = $2", org.str(), month);
  ClosedMonth closed{org, month, "", Money(), true};
  if (rows.empty()) return closed;
  closed.number = rows[0][0].c_str();
  closed.total = money_of(rows[0][1]);
  return closed;
}

}  // namespace

Result<std::vector<OrgId>> organizations(pg::Pool& pool) {
  return pool.with_tx([](pg::Tx& tx) -> Result<std::vector<OrgId>> {
    std::vector<OrgId> orgs;
    for (const auto& row : tx.exec("SELECT org FROM accounts ORDER BY org"))
      orgs.emplace_back(row[0].c_str());
    return orgs;
  });
}

Result<std::vector<ClosedMonth>> close_months(pg::Pool& pool, const OrgId& org, Month month,
                                              const std::string& issuer, Instant now) {
  const MoneySecond now_s = to_money_second(now);
  if (now_s <= end_of(month))
    return fail(Code::kConflict, "MonthNotOver",
                "The month " + to_string(month) + " is not over yet: it ends at " +
                    to_rfc3339(to_instant(end_of(month))) + ".");
  std::vector<ClosedMonth> all;
  for (;;) {
    auto closed = pool.with_tx([&](pg::Tx& tx) -> Result<ClosedMonth> {
      if (!lock_account(tx, org)) return ClosedMonth{org, month, "", Money()};
      const Month next = std::min(first_open(tx, org, now_s).value_or(month), next_month(month));
      return next > month ? closed_before(tx, org, month) : close_month(tx, org, next, issuer, now);
    });
    if (!closed) return std::unexpected(std::move(closed.error()));
    all.push_back(std::move(*closed));
    if (all.back().month >= month) return all;
  }
}

Result<std::vector<Invoice>> list_invoices(pg::Pool& pool, const OrgId& org, Month before, int limit) {
  return pool.with_tx([&](pg::Tx& tx) -> Result<std::vector<Invoice>> {
    std::vector<Invoice> invoices;
    for (const auto& row : tx.exec_params(std::string("SELECT ") + kColumns +
                                              " FROM invoices WHERE org = $1 AND ($2 = 0 OR month < $2)"
                                              " ORDER BY month DESC LIMIT $3",
                                          org.str(), before, limit))
      invoices.push_back(invoice_of(row));
    return invoices;
  });
}

Result<Invoice> read_invoice(pg::Pool& pool, const OrgId& org, const std::string& number) {
  return pool.with_tx([&](pg::Tx& tx) -> Result<Invoice> {
    const auto rows =
        tx.exec_params(std::string("SELECT ") + kColumns + " FROM invoices WHERE org = $1 AND number = $2",
                       org.str(), number);
    if (rows.empty()) return fail(Code::kNotFound, "NotFound", "There is no invoice \"" + number + "\".");
    Invoice invoice = invoice_of(rows[0]);
    for (const auto& row : tx.exec_params(
             "SELECT type, month, project, kind, reason, seconds, amount FROM invoice_lines WHERE number = $1"
             " ORDER BY ordinal",
             number))
      invoice.lines.push_back({row[0].c_str(), row[1].as<int>(), ProjectId(row[2].c_str()), row[3].c_str(),
                               row[4].c_str(), row[5].as<int64_t>(), money_of(row[6])});
    return invoice;
  });
}

}  // namespace nodus::metering
