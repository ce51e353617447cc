// What finance reads: the bill of one organization's month beside the number of lines that are stored, and
// lines a second of an export. A private PostgreSQL.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>

#include "libs/base/check.hpp"
#include "services/metering/adapters/http/export_format.hpp"
#include "services/metering/adapters/postgres/bill.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace {

using namespace nodus;
using namespace nodus::metering;
using Steady = std::chrono::steady_clock;

constexpr Month kMonth = 202611;
constexpr int64_t kProjects = 20, kSandboxes = 2'000;

double since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

class Bench {
 public:
  Bench()
      : url_(nodus::test::fresh_database(nodus::test::migrations_of("metering"), "metering")),
        pool_({.url = url_,
               .schema = "metering",
               .application_name = "bench",
               .statement_timeout = Millis(3'600'000)},
              2) {}

  // Lines of ten seconds up to `lines`, spread over the month, and what the posting transactions keep of
  // them.
  void fill(int64_t lines) {
    constexpr int64_t kStep = 250'000;
    while (filled_ < lines) {
      const int64_t to = std::min(filled_ + kStep, lines);
      sql(
          fmt::format("INSERT INTO bill_lines (sandbox_uid, start, ordinal, org, project, sandbox_name, "
                      "kind, from_s, to_s, rate,"
                      " amount, waived, reason) SELECT 'u' || n % {2}, n / {2}, 1, 'acme', 'acme/p' || n % "
                      "{3}, 'box-' || n % {2},"
                      " 'Running', {4} + day * 86400 + n * 7919 % 86000, {4} + day * 86400 + n * 7919 % "
                      "86000 + 10, 0.0000058,"
                      " 0.000058, false, 'Charged' FROM (SELECT n, n * 31 % 30 AS day FROM "
                      "generate_series({0}::bigint, {1} - 1) n) g",
                      filled_, to, kSandboxes, kProjects, begin_of(kMonth)));
      filled_ = to;
    }
    sql("TRUNCATE bill_days; INSERT INTO bill_days (org, day, project, kind, reason, seconds, amount, lines)"
        " SELECT org, (from_s / 86400)::integer, project, kind, reason, sum(to_s - from_s), sum(amount), "
        "count(*)"
        " FROM bill_lines GROUP BY 1, 2, 3, 4, 5; ANALYZE bill_lines, bill_days");
  }
  // Milliseconds, the median of some.
  double bill(BillBy by) {
    std::vector<double> times;
    for (int i = 0; i < 15; ++i) {
      const auto start = Steady::now();
      const auto bill = read_bill(
          pool_,
          {.org = OrgId("acme"), .from_s = begin_of(kMonth), .to_s = end_of(kMonth), .by = by, .limit = 100},
          to_instant(end_of(kMonth) + 1'000));
      CHECK(bill.has_value(), "{}", bill.error().message);
      times.push_back(since(start) * 1'000);
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
  }
  // Lines a second, of as many as there are.
  double exported(ExportFormat format, size_t& bytes) {
    ExportReader reader(pool_, OrgId("acme"), kMonth, to_instant(end_of(kMonth) + 1'000));
    const auto start = Steady::now();
    int64_t lines = 0;
    for (;;) {
      const auto rows = reader.next();
      CHECK(rows.has_value(), "{}", rows.error().message);
      if (rows->empty()) break;
      std::string text;
      for (const auto& row : *rows) add_row(format, {OrgId("acme"), kMonth, "NODUS", ""}, row, text);
      bytes += text.size();
      lines += static_cast<int64_t>(rows->size());
    }
    return static_cast<double>(lines) / since(start);
  }

 private:
  void sql(const std::string& text) {
    auto done = pool_.with_tx([&](pg::Tx& tx) -> Result<void> {
      tx.exec(text);
      return {};
    });
    CHECK(done.has_value(), "{}", done.error().message);
  }

  const std::string url_;
  pg::Pool pool_;
  int64_t filled_ = 0;
};

}  // namespace

// finance [LINES]: the larger of the two amounts that are compared (8000000); the smaller is an eighth.
int main(int argc, char** argv) {
  int64_t lines = 8'000'000;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), lines);
    CHECK(fault == std::errc() && end == text.data() + text.size() && lines >= 1'000'000, "LINES: {}", text);
  }
  Bench bench;
  double first[5] = {};
  for (const int64_t size : {lines / 8, lines}) {
    bench.fill(size);
    fmt::print("{} lines in the month\n", size);
    for (const auto by : {BillBy::kDay, BillBy::kProject, BillBy::kReason, BillBy::kLine}) {
      const double ms = bench.bill(by);
      auto& before = first[static_cast<size_t>(by)];
      fmt::print("  bill by {:<8} {:>8.2f} ms{}\n", to_string(by), ms,
                 before > 0 ? fmt::format("  {:.2f} x of the smaller", ms / before) : "");
      if (before == 0) before = ms;
    }
    if (size == lines) break;
    for (const auto& [format, name] :
         {std::pair{ExportFormat::kFocus, "FOCUS 1.2"}, {ExportFormat::kCsv, "CSV"}}) {
      size_t bytes = 0;
      const double rate = bench.exported(format, bytes);
      fmt::print("  export {:<10} {:>10.0f} lines/s  {:>8.1f} MB\n", name, rate,
                 static_cast<double>(bytes) / 1e6);
    }
    std::fflush(stdout);
  }
  return 0;
}
