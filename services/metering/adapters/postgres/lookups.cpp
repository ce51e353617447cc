#include "services/metering/adapters/postgres/read_models.hpp"
#include "services/metering/adapters/postgres/rows.hpp"

namespace nodus::metering {

namespace {
constexpr Seconds kReadAgain{30};
}

std::vector<PriceVersion> read_prices(pg::Tx& tx) {
  std::vector<PriceVersion> book;
  std::map<std::string, std::map<std::string, Money>> machines;  // by version
  for (const auto& row : tx.exec("SELECT version, machine_type, per_s FROM machine_prices"))
    machines[row[0].c_str()][row[1].c_str()] = money_of(row[2]);
  for (const auto& row : tx.exec("SELECT version, effective_us, cpu_per_vcpu_s, memory_per_gib_s,"
                                 " disk_per_gib_s, storage_per_gib_s FROM prices ORDER BY effective_us"))
    book.push_back({row[0].as<std::string>(), from_micros(row[1].as<int64_t>()), money_of(row[2]),
                    money_of(row[3]), money_of(row[4]), money_of(row[5]),
                    std::move(machines[row[0].c_str()])});
  return book;
}

Result<std::optional<PriceVersion>> PostgresLookups::price_in_force(eventlog::Unit& unit, Instant at) {
  std::lock_guard lock(mutex_);
  if (in_force(book_, at) == nullptr || at >= read_at_ + kReadAgain || at < read_at_) {
    book_ = read_prices(*unit.sql());
    read_at_ = at;
  }
  const auto* price = in_force(book_, at);
  if (price == nullptr) return std::nullopt;
  return *price;
}

Result<std::optional<PostedCredit>> PostgresLookups::posted_credit(eventlog::Unit& unit, const OrgId& org,
                                                                   const std::string& id) {
  const auto rows = unit.sql()->exec_params(
      "SELECT kind, CASE kind WHEN 'Refund' THEN uncovered - amount ELSE amount END, expires_s, priority"
      " FROM credits WHERE org = $1 AND id = $2",
      org.str(), id);
  if (rows.empty()) return std::nullopt;
  return PostedCredit{rows[0][0].c_str(), money_of(rows[0][1]), optional_of(rows[0][2]),
                      rows[0][3].as<int>()};
}

Result<Money> PostgresLookups::refunded(eventlog::Unit& unit, const OrgId& org, const std::string& prefix) {
  const auto row = unit.sql()->exec_params1(
      "SELECT coalesce(sum(uncovered - amount), 0)::numeric(38,12) FROM credits"
      " WHERE org = $1 AND kind = 'Refund' AND starts_with(id, $2)",
      org.str(), prefix);
  return money_of(row[0]);
}

}  // namespace nodus::metering
