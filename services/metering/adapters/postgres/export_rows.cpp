#include "services/metering/adapters/postgres/export_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nodus::metering {

namespace {

// The rows of the invoice before that say the same: nothing happened to them.
std::string no_twin(const std::string& of, const std::string& among) {
  return fmt::format(
      " AND NOT EXISTS (SELECT 1 FROM {1} t WHERE t.from_s = {0}.from_s AND t.sandbox_uid = {0}.sandbox_uid"
      " AND t.start = {0}.start AND t.kind = {0}.kind AND t.to_s = {0}.to_s AND t.rate = {0}.rate"
      " AND t.reason = {0}.reason)",
      of, among);
}

constexpr const char* kColumns =
    "project, sandbox_uid COLLATE \"C\" AS sandbox_uid, sandbox_name, start, ordinal, kind, from_s, to_s, "
    "rate,"
    " amount, reason";

int64_t number_of(const pqxx::field& field) {
  return field.as<int64_t>();
}

ExportRow row_of(const pqxx::row& row, const char* type, int sign) {
  ExportRow out;
  out.type = type;
  out.from_s = number_of(row[6]);
  out.to_s = number_of(row[7]);
  out.seconds = sign * (out.to_s - out.from_s);
  out.rate = row[8].c_str();
  out.amount = row[9].c_str();
  out.list_amount = row[10].c_str();
  out.project = row[0].c_str();
  out.sandbox_uid = row[1].c_str();
  out.sandbox_name = row[2].c_str();
  out.start = row[3].c_str();
  out.kind = row[5].c_str();
  out.reason = row[11].c_str();
  if (row[12].is_null()) return out;
  out.labels = row[12].c_str();
  out.price_version = row[13].c_str();
  out.machine_type = row[14].c_str();
  out.cpu_milli = row[15].c_str();
  out.memory_bytes = row[16].c_str();
  out.disk_bytes = row[17].c_str();
  return out;
}

}  // namespace

void ExportReader::look(pg::Tx& tx) {
  const auto closed = tx.exec_params("SELECT 1 FROM billing_periods WHERE org = $1 AND closed_to_s >= $2",
                                     org_.str(), end_of(month_));
  closed_ = !closed.empty();
  const auto invoice =
      tx.exec_params("SELECT number FROM invoices WHERE org = $1 AND month = $2", org_.str(), month_);
  if (!invoice.empty()) invoice_ = invoice[0][0].c_str();
  looked_ = true;
}

// What the part reads, as SQL with kColumns.
std::string ExportReader::source(pg::Tx& tx) const {
  const std::string org = tx.quote(org_.str());
  const MoneySecond begin = begin_of(month_), end = end_of(month_);
  const Month before = month_of(begin - 1);
  const auto estimates = [&](Month month) {
    return fmt::format("(SELECT * FROM estimates WHERE org = {} AND in_month = {})", org, month);
  };
  // What is open: as the invoice says, or as it stands.
  const std::string open =
      closed_ ? estimates(month_) : fmt::format("open_lines({}, {})", org, std::min(now_s_, end));
  const std::string late =
      fmt::format("(SELECT * FROM bill_lines WHERE org = {} AND late_in = {})", org, month_);
  const std::string beyond = after_.empty() ? "" : " AND (from_s, sandbox_uid, start, ordinal) > " + after_;
  const std::string page = fmt::format(" ORDER BY from_s, sandbox_uid, start, ordinal LIMIT {}", page_rows_);
  switch (part_) {
    case Part::kLines:
      return fmt::format(
          "(SELECT {0} FROM bill_lines WHERE org = {1} AND from_s >= {2} AND from_s < {3}"
          " AND late_in IS NULL{4}{5}) UNION ALL (SELECT {0} FROM {6} o WHERE from_s >= {2}"
          " AND from_s < {3}{4}{5})",
          kColumns, org, begin, end, beyond, page, open);
    case Part::kLate:
      return fmt::format(
          "(SELECT {0} FROM {1} l WHERE true{2}{3}{4}) UNION ALL"
          " (SELECT {0} FROM {5} o WHERE from_s < {6}{7}{3}{4})",
          kColumns, late, no_twin("l", estimates(before)), beyond, page, open, begin,
          no_twin("o", estimates(before)));
    default:
      return fmt::format("(SELECT {0} FROM {1} e WHERE true{2}{3}{4}{5})", kColumns, estimates(before),
                         no_twin("e", late), no_twin("e", open), beyond, page);
  }
}

Result<std::vector<ExportRow>> ExportReader::read(pg::Tx& tx) {
  std::vector<ExportRow> rows;
  if (part_ == Part::kRounding) {
    for (const auto& row : tx.exec_params(
             "SELECT amount FROM invoice_lines WHERE number = $1 AND type = 'Rounding' AND amount <> 0",
             invoice_)) {
      ExportRow out;
      out.type = "Rounding";
      out.from_s = begin_of(month_);
      out.to_s = end_of(month_);
      out.amount = out.list_amount = row[0].c_str();
      rows.push_back(std::move(out));
    }
    return rows;
  }
  const bool back = part_ == Part::kTakenBack;
  const char* type = part_ == Part::kLines ? "Usage" : "Correction";
  const auto found = tx.exec(fmt::format(
      "SELECT project, r.sandbox_uid, sandbox_name, r.start, ordinal, kind, from_s, to_s, "
      "rate::numeric(38,12),"
      " ({0} amount)::numeric(38,12), ({0} rate * (to_s - from_s))::numeric(38,12), reason, f.labels,"
      " CASE kind WHEN 'Storage' THEN g.price_version ELSE f.price_version END,"
      " CASE kind WHEN 'Storage' THEN '' ELSE f.machine_type END, CASE kind WHEN 'Storage' THEN 0 ELSE"
      " f.cpu_milli END, f.memory_bytes, CASE kind WHEN 'Storage' THEN g.size_bytes ELSE f.disk_bytes END"
      " FROM (SELECT * FROM ({1}) p ORDER BY from_s, sandbox_uid, start, ordinal LIMIT {2}) r"
      " LEFT JOIN start_facts f ON f.sandbox_uid = r.sandbox_uid AND f.start = r.start"
      " LEFT JOIN storage_facts g ON r.kind = 'Storage' AND g.sandbox_uid = r.sandbox_uid AND g.start = "
      "r.start"
      " ORDER BY from_s, r.sandbox_uid, r.start, ordinal",
      back ? "-" : "", source(tx), page_rows_));
  rows.reserve(found.size());
  for (const auto& row : found) rows.push_back(row_of(row, type, back ? -1 : 1));
  if (!found.empty()) {
    const auto& last = found.back();
    after_ = fmt::format("({}, {}, {}, {})", last[6].c_str(), tx.quote(std::string(last[1].c_str())),
                         last[3].c_str(), last[4].c_str());
  }
  return rows;
}

ExportReader::Page ExportReader::fetch() {
  while (part_ != Part::kDone) {
    auto rows = pool_.with_tx([&](pg::Tx& tx) {
      if (!looked_) look(tx);
      return read(tx);
    });
    if (!rows) return rows;
    if (rows->size() < static_cast<size_t>(page_rows_)) {
      part_ = static_cast<Part>(static_cast<int>(part_) + 1);
      after_.clear();
    }
    if (!rows->empty()) return rows;
  }
  return std::vector<ExportRow>();
}

void ExportReader::wait() const {
  if (ahead_.valid()) ahead_.wait();
}

Result<std::vector<ExportRow>> ExportReader::next() {
  auto page = ahead_.valid() ? ahead_.get() : fetch();
  if (page && !page->empty()) ahead_ = std::async(std::launch::async, [this] { return fetch(); });
  return page;
}

}  // namespace nodus::metering
