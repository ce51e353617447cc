#include "services/metering/adapters/recompute.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "libs/pg/arrays.hpp"
#include "services/metering/adapters/postgres/bill_lines.hpp"
#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/app/streams.hpp"

namespace nodus::metering {

namespace {

constexpr int kPage = 1'000;

struct OpenStart {  // what is known of a start before it is closed
  Rate rate;
  std::string name;
  std::optional<MoneySecond> from_s, cap_s;
};

struct Sum {
  int64_t seconds = 0;
  Money amount;
  int64_t lines = 0;
  bool operator==(const Sum&) const = default;
};
// Organization, day, project, kind, reason.
using Sums = std::map<std::tuple<std::string, int64_t, std::string, std::string, std::string>, Sum>;

struct Closed {  // a start, or a piece of storage
  SlotRef slot;
  Rate rate;
  std::string name;
  std::vector<BilledLine> lines;  // of the month
};

class Recomputation {
 public:
  Recomputation(pg::Pool& pool, eventlog::EventLog& log, Month month, const OrgId& only)
      : pool_(pool), log_(log), begin_s_(begin_of(month)), end_s_(end_of(month)), only_(only) {}

  Result<std::vector<Recomputed>> run() {
    for (int partition = 0; partition < log_.partitions(); ++partition) {
      open_.clear();  // a stream is in one partition
      pieces_.clear();
      for (int64_t after = 0;;) {
        const auto page = log_.read(partition, after, kPage);
        if (!page) return std::unexpected(page.error());
        if (page->empty()) break;
        after = page->back().position;
        for (const auto& recorded : *page)
          if (auto heard = hear(recorded); !heard) return std::unexpected(std::move(heard.error()));
        if (auto compared = compare(); !compared) return std::unexpected(std::move(compared.error()));
      }
    }
    if (auto compared = compare_sums(); !compared) return std::unexpected(std::move(compared.error()));
    std::vector<Recomputed> all;
    for (auto& [_, one] : found_) all.push_back(std::move(one));
    return all;
  }

 private:
  Recomputed& of(const std::string& org) {
    auto& one = found_[org];
    one.org = OrgId(org);
    return one;
  }
  void fault(const std::string& org, std::string example) {
    auto& one = of(org);
    if (++one.faults == 1) one.example = std::move(example);
  }

  Result<void> hear(const eventlog::Recorded& recorded) {
    if (!recorded.stream.starts_with("charge/")) return {};
    const auto event = Charges::decode(recorded.type, recorded.payload);
    if (!event) return std::unexpected(event.error());
    if (const auto* funded = std::get_if<charge::StartFunded>(&*event)) {
      open_[recorded.stream] = {funded->rate, funded->sandbox_name, {}, {}};
    } else if (const auto* opened = std::get_if<charge::ChargeOpened>(&*event)) {
      auto& start = open_[recorded.stream];
      start.from_s = opened->from_s;
      start.cap_s = opened->cap_s;
    } else if (const auto* closed = std::get_if<charge::ChargeClosed>(&*event)) {
      close(*closed, open_[recorded.stream]);
      open_.erase(recorded.stream);
    } else if (const auto* piece = std::get_if<charge::StorageOpened>(&*event)) {
      pieces_[recorded.stream] = *piece;
    } else if (const auto* metered = std::get_if<charge::StorageMetered>(&*event)) {
      meter(*metered, pieces_[recorded.stream]);
      pieces_.erase(recorded.stream);
    }
    return {};
  }

  void meter(const charge::StorageMetered& metered, const charge::StorageOpened& opened) {
    const std::string& org = metered.slot.org.str();
    if (!only_.empty() && org != only_.str()) return;
    if (metered.to_s <= begin_s_ || metered.from_s >= end_s_) return;
    const bool waived = metered.waived != Waiver::kUnsaid;
    const Money due = waived ? Money() : opened.rate * (metered.to_s - metered.from_s);
    if (metered.from_s != opened.from_s || metered.rate != opened.rate || metered.waived != opened.waived ||
        metered.amount != due)
      fault(org, fmt::format("the storage of {}/{} is not what it was promised", metered.slot.uid.str(),
                             metered.slot.start));
    keep({metered.slot, metered.rate, opened.sandbox_name, {}}, billed(metered));
  }

  // The lines that are of the month.
  void keep(Closed kept, std::vector<BilledLine> lines) {
    const std::string& org = kept.slot.org.str();
    for (auto& line : lines) {
      if (line.line.from_s < begin_s_ || line.line.from_s >= end_s_) continue;
      auto& sum = sums_[{org, line.line.from_s / kDaySeconds, kept.slot.project.str(),
                         std::string(to_string(line.line.kind)), line.reason}];
      sum.seconds += line.line.to_s - line.line.from_s;
      sum.amount += line.line.amount;
      ++sum.lines;
      ++of(org).lines;
      of(org).amount += line.line.amount;
      kept.lines.push_back(std::move(line));
    }
    closed_.push_back(std::move(kept));
  }

  // The event says the lines; that they are what the start was promised is looked at here.
  void close(const charge::ChargeClosed& closed, const OpenStart& start) {
    const std::string& org = closed.slot.org.str();
    if (!only_.empty() && org != only_.str()) return;
    if (closed.to_s <= begin_s_ || start.from_s.value_or(0) >= end_s_) return;
    MoneySecond reached = start.from_s.value_or(0);
    bool fine = start.from_s.has_value() && closed.rate == start.rate;
    Money amount;
    for (const auto& line : closed.lines) {
      fine = fine && line.from_s == reached && line.to_s > line.from_s &&
             line.amount == (line.waived ? Money() : start.rate * (line.to_s - line.from_s));
      reached = line.to_s;
      amount += line.amount;
    }
    if (!fine || reached != closed.to_s || amount != closed.amount)
      fault(org, fmt::format("the lines of {}/{} are not what it was promised", closed.slot.uid.str(),
                             closed.slot.start));
    keep({closed.slot, closed.rate, start.name, {}}, billed(closed, start.cap_s));
  }

  static std::string text_of(const Closed& closed, const BilledLine& line) {
    return fmt::format("{} {} {} {} {} {} {} {} {}", closed.slot.org.str(), closed.slot.project.str(),
                       closed.name, to_string(line.line.kind), line.line.from_s, line.line.to_s,
                       closed.rate.to_decimal(), line.line.amount.to_decimal(), line.reason);
  }

  // The lines that were posted in this page, each against its row; no two of a start begin at the same
  // second. Rows that follow from no event are found by the sums.
  Result<void> compare() {
    std::vector<std::string_view> uids;
    std::vector<int64_t> starts, begins;
    std::vector<std::pair<const Closed*, std::string>> expected;
    for (const auto& closed : closed_)
      for (const auto& line : closed.lines) {
        uids.push_back(closed.slot.uid.str());
        starts.push_back(closed.slot.start);
        begins.push_back(line.line.from_s);
        expected.emplace_back(&closed, text_of(closed, line));
      }
    if (!uids.empty()) {
      auto stored = pool_.with_tx([&](pg::Tx& tx) -> Result<std::vector<std::string>> {
        std::vector<std::string> found;
        for (const auto& row : tx.exec_params(
                 "SELECT concat_ws(' ', org, project, sandbox_name, kind, b.from_s, to_s, "
                 "rate::numeric(38,12),"
                 " amount::numeric(38,12), reason) FROM unnest($1::text[], $2::bigint[], $3::bigint[])"
                 " WITH ORDINALITY AS u (uid, start, from_s, place) LEFT JOIN bill_lines b"
                 " ON b.sandbox_uid = u.uid AND b.start = u.start AND b.from_s = u.from_s ORDER BY u.place",
                 pg::text_array(uids), pg::int8_array(starts), pg::int8_array(begins)))
          found.emplace_back(row[0].c_str());
        return found;
      });
      if (!stored) return std::unexpected(std::move(stored.error()));
      const bool rows_fit = stored->size() == expected.size();
      for (size_t i = 0; i < expected.size(); ++i) {
        const SlotRef& slot = expected[i].first->slot;
        if (!rows_fit || (*stored)[i] != expected[i].second)
          fault(slot.org.str(), fmt::format("the lines of {}/{} differ", slot.uid.str(), slot.start));
      }
    }
    closed_.clear();
    return {};
  }

  Result<void> compare_sums() {
    const std::string whose = only_.empty() ? "" : " AND org = $3";
    return pool_.with_tx([&](pg::Tx& tx) -> Result<void> {
      const auto ask = [&](const std::string& sql, MoneySecond from, MoneySecond to) {
        return only_.empty() ? tx.exec_params(sql, from, to) : tx.exec_params(sql, from, to, only_.str());
      };
      for (const auto& row : ask("SELECT org, count(*), sum(amount)::numeric(38,12) FROM bill_lines"
                                 " WHERE from_s >= $1 AND from_s < $2" +
                                     whose + " GROUP BY org",
                                 begin_s_, end_s_)) {
        auto& one = of(row[0].c_str());
        one.stored_lines = row[1].as<int64_t>();
        one.stored_amount = money_of(row[2]);
      }
      for (const auto& row : ask("SELECT org, day, project, kind, reason, sum(seconds)::bigint,"
                                 " sum(amount)::numeric(38,12), sum(lines)::bigint FROM bill_days"
                                 " WHERE day >= $1 AND day < $2" +
                                     whose + " GROUP BY 1, 2, 3, 4, 5",
                                 begin_s_ / kDaySeconds, end_s_ / kDaySeconds)) {
        const Sum stored{row[5].as<int64_t>(), money_of(row[6]), row[7].as<int64_t>()};
        const auto key =
            std::tuple(std::string(row[0].c_str()), row[1].as<int64_t>(), std::string(row[2].c_str()),
                       std::string(row[3].c_str()), std::string(row[4].c_str()));
        const auto found = sums_.find(key);
        if (found == sums_.end() || found->second != stored)
          fault(row[0].c_str(), fmt::format("the sums of {} differ", day_text(row[1].as<int64_t>())));
        if (found != sums_.end()) sums_.erase(found);
      }
      for (const auto& [key, _] : sums_)
        fault(std::get<0>(key), fmt::format("the sums of {} are missing", day_text(std::get<1>(key))));
      for (auto& [org, one] : found_)
        if (one.lines != one.stored_lines || one.amount != one.stored_amount)
          fault(org, "the tables have other lines than the log");
      return {};
    });
  }

  pg::Pool& pool_;
  eventlog::EventLog& log_;
  const MoneySecond begin_s_, end_s_;
  const OrgId only_;
  std::map<std::string, OpenStart> open_;                // by stream
  std::map<std::string, charge::StorageOpened> pieces_;  // by stream
  std::vector<Closed> closed_;                           // of the present page
  Sums sums_;
  std::map<std::string, Recomputed> found_;
};

}  // namespace

Result<std::vector<Recomputed>> recompute(pg::Pool& pool, eventlog::EventLog& log, Month month,
                                          const OrgId& only) {
  return Recomputation(pool, log, month, only).run();
}

}  // namespace nodus::metering
