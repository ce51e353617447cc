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

struct Closed {
  charge::ChargeClosed event;
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
    }
    return {};
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
    Closed kept{closed, start.name, {}};
    for (auto& line : billed(closed, start.cap_s)) {
      if (line.line.from_s < begin_s_ || line.line.from_s >= end_s_) continue;
      auto& sum = sums_[{org, line.line.from_s / kDaySeconds, closed.slot.project.str(),
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

  static std::string text_of(const Closed& closed, const BilledLine& line) {
    const auto& [slot, rate] = std::tie(closed.event.slot, closed.event.rate);
    return fmt::format("{} {} {} {} {} {} {} {} {}", slot.org.str(), slot.project.str(), closed.name,
                       to_string(line.line.kind), line.line.from_s, line.line.to_s, rate.to_decimal(),
                       line.line.amount.to_decimal(), line.reason);
  }

  // The lines of the starts that closed in this page, against the table.
  Result<void> compare() {
    std::vector<std::string_view> uids;
    std::vector<int64_t> starts;
    std::map<std::pair<std::string, int64_t>, std::vector<std::string>> expected;
    for (const auto& closed : closed_) {
      const auto& slot = closed.event.slot;
      uids.push_back(slot.uid.str());
      starts.push_back(slot.start);
      auto& lines = expected[{slot.uid.str(), slot.start}];
      for (const auto& line : closed.lines) lines.push_back(text_of(closed, line));
    }
    if (uids.empty()) return {};
    auto stored = pool_.with_tx([&](pqxx::work& tx) -> Result<decltype(expected)> {
      decltype(expected) found;
      for (const auto& row : tx.exec_params(
               "SELECT b.sandbox_uid, b.start, concat_ws(' ', org, project, sandbox_name, kind, from_s, to_s,"
               " rate::numeric(38,12), amount::numeric(38,12), reason)"
               " FROM unnest($1::text[], $2::bigint[]) AS u (uid, start) JOIN bill_lines b"
               " ON b.sandbox_uid = u.uid AND b.start = u.start WHERE from_s >= $3 AND from_s < $4"
               " ORDER BY b.ordinal",
               pg::text_array(uids), pg::int8_array(starts), begin_s_, end_s_))
        found[{row[0].c_str(), row[1].as<int64_t>()}].emplace_back(row[2].c_str());
      return found;
    });
    if (!stored) return std::unexpected(std::move(stored.error()));
    for (const auto& closed : closed_) {
      const auto& slot = closed.event.slot;
      const std::pair key{slot.uid.str(), slot.start};
      if (expected[key] != (*stored)[key])
        fault(slot.org.str(), fmt::format("the lines of {}/{} differ", slot.uid.str(), slot.start));
    }
    closed_.clear();
    return {};
  }

  Result<void> compare_sums() {
    const std::string whose = only_.empty() ? "" : " AND org = $3";
    return pool_.with_tx([&](pqxx::work& tx) -> Result<void> {
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
  std::map<std::string, OpenStart> open_;  // by stream
  std::vector<Closed> closed_;             // of the present page
  Sums sums_;
  std::map<std::string, Recomputed> found_;
};

}  // namespace

Result<std::vector<Recomputed>> recompute(pg::Pool& pool, eventlog::EventLog& log, Month month,
                                          const OrgId& only) {
  return Recomputation(pool, log, month, only).run();
}

}  // namespace nodus::metering
