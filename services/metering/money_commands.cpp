#include "services/metering/money_commands.hpp"

#include <fmt/core.h>

#include "services/metering/adapters/audit.hpp"
#include "services/metering/adapters/postgres/ledger.hpp"
#include "services/metering/adapters/postgres/rows.hpp"
#include "services/metering/adapters/rebuild.hpp"
#include "services/metering/operator.hpp"
#include "services/metering/service.hpp"

namespace nodus::metering {

namespace {

Result<std::vector<PriceVersion>> book_of(Operator& with) {
  return with.pool.with_tx([](pg::Tx& tx) -> Result<std::vector<PriceVersion>> { return read_prices(tx); });
}

const char* state_of(const PriceVersion& price, const PriceVersion* present, Instant now) {
  if (&price == present) return "in force";
  return price.effective_at > now ? "ahead" : "past";
}

}  // namespace

int list_prices(const Config& config) {
  Operator with(config);
  const auto book = book_of(with);
  if (!book) return complain(book.error(), 1);
  const Instant now = with.clock.now();
  const auto* present = in_force(*book, now);
  fmt::print("{:<24} {:<10} {:<21} {:>20}\n", "VERSION", "STATE", "EFFECTIVE", "1 VCPU 1GI 10GI/S");
  constexpr Shape kUsual{1'000, int64_t{1} << 30, int64_t{10} << 30};
  for (const auto& price : *book)
    fmt::print("{:<24} {:<10} {:<21} {:>20}\n", price.version, state_of(price, present, now),
               to_rfc3339(price.effective_at), rate_of(*prices_of(kUsual, "", price)).to_decimal());
  return 0;
}

int show_prices(const Config& config, const std::string& version) {
  Operator with(config);
  const auto book = book_of(with);
  if (!book) return complain(book.error(), 1);
  const Instant now = with.clock.now();
  for (const auto& price : *book) {
    if (price.version != version) continue;
    fmt::print("version              {} ({})\neffectiveAt          {}\n", version,
               state_of(price, in_force(*book, now), now), to_rfc3339(price.effective_at));
    fmt::print("cpuPerVcpuSecond     {}\nmemoryPerGibSecond   {}\ndiskPerGibSecond     {}\n",
               price.cpu_per_vcpu_s.to_decimal(), price.memory_per_gib_s.to_decimal(),
               price.disk_per_gib_s.to_decimal());
    fmt::print("storagePerGibSecond  {}\n", price.storage_per_gib_s.to_decimal());
    for (const auto& [type, per_s] : price.machines)
      fmt::print("machinePerSecond     {} {}\n", per_s.to_decimal(), type);
    return 0;
  }
  return complain({Code::kNotFound, "NotFound", "There is no price version " + version + "."}, 1);
}

int post_credit_of(const Config& config, const CreditRequest& request) {
  auto credit = credit_of(request);
  if (!credit) {
    for (auto& cause : credit.error().causes) cause.field = "--" + cause.field;
    return complain(credit.error(), 1);
  }
  Operator with(config);
  if (auto opened = with.open(config); !opened) return complain(opened.error(), kMissing);
  const auto posted = post_credit(*with.log, *with.works, *credit);
  if (!posted) return complain(posted.error(), 1);
  fmt::print("{} {} of ${} to {}: {}\n", request.kind, request.id, credit->amount.to_decimal(), request.org,
             *posted ? "posted" : "posted before");
  return 0;
}

int list_credits(const Config& config, const std::string& org) {
  Operator with(config);
  const auto listed = with.pool.with_tx([&](pg::Tx& tx) -> Result<void> {
    fmt::print("{:<32} {:<10} {:>22} {:<21} {:<21} {}\n", "ID", "KIND", "AMOUNT", "POSTED", "EXPIRES",
               "AUTHOR");
    for (const auto& row : tx.exec_params("SELECT id, kind, amount, at_us, expires_s, author FROM credits"
                                          " WHERE org = $1 ORDER BY at_us, id",
                                          org)) {
      const auto expires = optional_of(row[4]);
      fmt::print("{:<32} {:<10} {:>22} {:<21} {:<21} {}\n", row[0].c_str(), row[1].c_str(), row[2].c_str(),
                 to_rfc3339(std::chrono::floor<Seconds>(from_micros(row[3].as<int64_t>()))),
                 expires ? to_rfc3339(to_instant(*expires)) : "-", row[5].c_str());
    }
    return {};
  });
  return listed ? 0 : complain(listed.error(), 1);
}

int run_rebuild(const Config& config) {
  Operator with(config);
  if (auto opened = with.open(config); !opened) return complain(opened.error(), kMissing);
  const auto checks = rebuild_check(with.pool, *with.log);
  if (!checks) return complain(checks.error(), 1);
  return print_checks(*checks);
}

int run_seal(const Config& config) {
  Operator with(config);
  const auto sealed = seal_ledger(with.pool, with.clock.now());
  if (!sealed) return complain(sealed.error(), 1);
  fmt::print("{} entries sealed in {} ranges\nhead {}\n", sealed->entries, sealed->seals, sealed->head);
  return 0;
}

int run_verify(const Config& config, const std::string& expected) {
  Operator with(config);
  const auto verdict = verify_ledger(with.pool, expected);
  if (!verdict) return complain(verdict.error(), 1);
  for (const auto& fault : verdict->faults) fmt::print("FAULT {}\n", to_string(fault));
  if (!verdict->expected_found) fmt::print("FAULT the hash {} is not in the chain\n", expected);
  fmt::print("{} seals, {} faults, {} entries not sealed yet\nhead {}\n", verdict->seals,
             verdict->faults.size(), verdict->unsealed, verdict->head);
  return verdict->faults.empty() && verdict->expected_found ? 0 : 1;
}

}  // namespace nodus::metering
