// All lines of an organization's month, as its invoice has them or will have them, in pages: constant memory,
// each page a short transaction. The amounts add up to the invoice's total.
#pragma once

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/ids.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/app/calendar.hpp"

namespace nodus::metering {

// Numbers are decimal text, as the database writes them.
struct ExportRow {
  std::string type;  // Usage | Correction | Rounding; the columns below the amount are empty for Rounding
  MoneySecond from_s = 0;
  MoneySecond to_s = 0;
  int64_t seconds = 0;  // negative: an estimate of the invoice before is taken back
  std::string rate;
  std::string amount;       // 0 when waived
  std::string list_amount;  // rate × seconds
  std::string project;
  std::string sandbox_uid;
  std::string sandbox_name;
  std::string start;
  std::string kind;
  std::string reason;
  std::string labels;  // a JSON object; empty: not known
  std::string price_version;
  std::string machine_type;
  std::string cpu_milli;  // the shape; empty: not known
  std::string memory_bytes;
  std::string disk_bytes;
};

// Reads the page after the one that it gave meanwhile: while one is written out, the database makes the next.
class ExportReader {
 public:
  ExportReader(pg::Pool& pool, OrgId org, Month month, Instant now, int page_rows = 2'000)
      : pool_(pool),
        org_(std::move(org)),
        month_(month),
        now_s_(to_money_second(now)),
        page_rows_(page_rows) {}

  // The next rows; none: that was all. A start that closes meanwhile comes once.
  Result<std::vector<ExportRow>> next();
  void wait() const;  // for the read that is under way; so does the end, which may not block everywhere
  // Of the month's invoice, known after the first next(); empty: not invoiced (yet).
  const std::string& invoice() const { return invoice_; }

 private:
  enum class Part { kLines, kLate, kTakenBack, kRounding, kDone };
  using Page = Result<std::vector<ExportRow>>;
  Page fetch();
  Result<std::vector<ExportRow>> read(pg::Tx& tx);
  void look(pg::Tx& tx);
  std::string source(pg::Tx& tx) const;

  pg::Pool& pool_;
  const OrgId org_;
  const Month month_;
  const MoneySecond now_s_;
  const int page_rows_;
  bool looked_ = false;
  bool closed_ = false;
  std::string invoice_;
  Part part_ = Part::kLines;
  std::string after_;        // the place of the last row, as SQL
  std::future<Page> ahead_;  // its thread alone changes what is above; the end waits for it
};

}  // namespace nodus::metering
