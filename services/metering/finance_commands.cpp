// What an operator does for finance: closing months, and holding them against the log.
#include <fmt/core.h>

#include "libs/eventlog/postgres_log.hpp"
#include "services/metering/adapters/postgres/invoices.hpp"
#include "services/metering/adapters/recompute.hpp"
#include "services/metering/service.hpp"

namespace nodus::metering {

namespace {

constexpr int kMissing = 2;

Error wrong_month() {
  return {Code::kInvalid, "", "--month takes a calendar month such as 2026-11."};
}

}  // namespace

int invoice(const Config& config, const std::string& month, const std::string& org) {
  const auto wanted = parse_month(month);
  if (!wanted) return complain(wrong_month(), 1);
  pg::Pool pool(config.database, 1);
  const SystemClock clock;
  std::vector<OrgId> orgs{OrgId(org)};
  if (org.empty()) {
    auto all = organizations(pool);
    if (!all) return complain(all.error(), 1);
    orgs = std::move(*all);
  }
  fmt::print("{:<40} {:<8} {:<24} {:>16}\n", "ORGANIZATION", "MONTH", "INVOICE", "TOTAL");
  int code = 0;
  for (const auto& each : orgs) {
    const auto closed = close_months(pool, each, *wanted, config.invoice_issuer, clock.now());
    if (!closed) {
      code = complain(closed.error(), 1);
      continue;
    }
    for (const auto& one : *closed)
      fmt::print("{:<40} {:<8} {:<24} {:>16}{}\n", one.org.str(), to_string(one.month),
                 one.number.empty() ? "-" : one.number, one.number.empty() ? "-" : one.total.to_decimal(),
                 one.before ? "  (closed before)" : "");
  }
  return code;
}

int recompute_month(const Config& config, const std::string& month, const std::string& org) {
  const auto wanted = parse_month(month);
  if (!wanted) return complain(wrong_month(), 1);
  pg::Pool pool(config.database, 2);
  const SystemClock clock;
  auto log = eventlog::make_postgres_log(clock, pool, config.log_partitions);
  if (!log) return complain(log.error(), kMissing);
  const auto all = recompute(pool, **log, *wanted, OrgId(org));
  if (!all) return complain(all.error(), 1);
  fmt::print("{:<40} {:>10} {:>24} {:>24} {:>7}  {}\n", "ORGANIZATION", "LINES", "BY THE LOG", "DIFFERENCE",
             "FAULTS", "EXAMPLE");
  int64_t faults = 0;
  for (const auto& one : *all) {
    fmt::print("{:<40} {:>10} {:>24} {:>24} {:>7}  {}\n", one.org.str(), one.lines, one.amount.to_decimal(),
               (one.stored_amount - one.amount).to_decimal(), one.faults, one.example);
    faults += one.faults;
  }
  return faults == 0 ? 0 : 1;
}

}  // namespace nodus::metering
