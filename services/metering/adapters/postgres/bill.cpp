#include "services/metering/adapters/postgres/bill.hpp"

#include <algorithm>
#include <charconv>

#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/app/streams.hpp"

namespace nodus::metering {

namespace {

constexpr int kOpenLimit = 1'000;

LineKind kind_of(const std::string& text) {
  for (const auto kind : {LineKind::kStarting, LineKind::kStopping})
    if (text == to_string(kind)) return kind;
  return LineKind::kRunning;
}

struct Place {  // in the order of the bill
  int64_t from_s = -1;
  std::string uid;
  int64_t start = 0;
  int ordinal = 0;
};

template <class Number>
bool number(std::string_view text, Number& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

std::string to_text(const BillLine& line) {
  return fmt::format("{}_{}_{}_{}", line.line.from_s, line.start, line.ordinal, line.uid.str());
}

Result<Place> place_of(const std::string& text) {
  if (text.empty()) return Place();
  Place place;
  std::vector<std::string_view> parts;
  std::string_view rest = text;
  for (size_t cut; parts.size() < 3 && (cut = rest.find('_')) != std::string_view::npos;
       rest.remove_prefix(cut + 1))
    parts.push_back(rest.substr(0, cut));
  if (parts.size() == 3 && text.size() <= 200 && number(parts[0], place.from_s) &&
      number(parts[1], place.start) && number(parts[2], place.ordinal)) {
    place.uid = rest;
    return place;
  }
  return fail(Code::kBadRequest, "ContinueInvalid",
              "\"continue\" is not one that a bill gave; leave it out.");
}

// Where the lines of an account's era end, recorded or not yet.
std::optional<MoneySecond> paid_until(const account::State& account, int64_t era) {
  return era < account.era ? account::exhausted_at(account, era) : account::ends_at(account);
}

std::vector<BillLine> open_lines(pqxx::work& tx, const BillQuery& query, const account::State& account,
                                 Instant now) {
  std::vector<BillLine> lines;
  for (const auto& row : tx.exec_params(
           "SELECT sandbox_uid, start, sandbox_name, rate, started_us, stopping_us, from_s, cap_s, era"
           " FROM starts WHERE project = $1 AND org = $2 AND open AND ($3 = '' OR sandbox_name = $3)"
           " ORDER BY from_s, sandbox_uid LIMIT $4",
           query.project.str(), query.org.str(), query.sandbox, kOpenLimit)) {
    const Times times{.started = instant_of(row[4]), .stopping = instant_of(row[5])};
    const auto from_s = row[6].as<int64_t>();
    auto limit = optional_of(row[7]);
    if (const auto end = paid_until(account, row[8].as<int64_t>()))
      limit = std::min(limit.value_or(*end), *end);
    const Rate rate = rate_of(row[3]);
    int ordinal = 0;
    for (const auto& line : rate_lines(times, from_s, std::max(from_s, to_money_second(now)), rate, limit))
      lines.push_back(
          {row[2].c_str(), SandboxUid(row[0].c_str()), row[1].as<int64_t>(), ++ordinal, line, rate, true});
  }
  return lines;
}

std::vector<BillLine> posted_lines(pqxx::work& tx, const BillQuery& query, const Place& after) {
  std::vector<BillLine> lines;
  for (const auto& row : tx.exec_params(
           "SELECT sandbox_uid, start, ordinal, sandbox_name, kind, from_s, to_s, rate, amount, waived"
           " FROM bill_lines WHERE project = $1 AND org = $2 AND ($3 = '' OR sandbox_name = $3)"
           " AND (from_s, sandbox_uid, start, ordinal) > ($4, $5, $6, $7)"
           " ORDER BY from_s, sandbox_uid, start, ordinal LIMIT $8",
           query.project.str(), query.org.str(), query.sandbox, after.from_s, after.uid, after.start,
           after.ordinal, query.limit + 1))
    lines.push_back({row[3].c_str(),
                     SandboxUid(row[0].c_str()),
                     row[1].as<int64_t>(),
                     row[2].as<int>(),
                     {kind_of(row[4].c_str()), row[5].as<int64_t>(), row[6].as<int64_t>(), money_of(row[8]),
                      row[9].as<bool>()},
                     rate_of(row[7]),
                     false});
  return lines;
}

}  // namespace

Result<BillPage> read_bill(pg::Pool& pool, eventlog::EventLog& log, const BillQuery& query, Instant now) {
  const auto after = place_of(query.after);
  if (!after) return std::unexpected(after.error());
  account::State account;
  const auto head = log.head(account_stream(query.org));
  if (!head) return std::unexpected(head.error());
  if (head->version > 0) {
    auto state = codec::decode_account_state(head->state);
    if (!state) return std::unexpected(std::move(state.error()));
    account = std::move(*state);
  }
  return pool.with_tx([&](pqxx::work& tx) -> Result<BillPage> {
    tx.exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
    BillPage page;
    page.lines = posted_lines(tx, query, *after);
    if (std::cmp_greater(page.lines.size(), query.limit)) {
      page.lines.pop_back();
      page.next = to_text(page.lines.back());
    }
    const auto sum = tx.exec_params(
        "SELECT coalesce(sum(amount), 0)::numeric(38,12) FROM bill_lines"
        " WHERE project = $1 AND org = $2 AND ($3 = '' OR sandbox_name = $3)",
        query.project.str(), query.org.str(), query.sandbox);
    page.total = money_of(sum[0][0]);
    auto open = open_lines(tx, query, account, now);
    for (const auto& line : open) page.total += line.line.amount;
    if (page.next.empty()) std::ranges::move(open, std::back_inserter(page.lines));
    const auto now_s = to_money_second(now);
    const auto end = account::ends_at(account);
    page.balance = account::balance(account) - account.pending -
                   account::accrued(account, end ? std::min(*end, now_s) : now_s);
    return page;
  });
}

}  // namespace nodus::metering
