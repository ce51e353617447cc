// Metering's tables, written and read inside of the transactions of the event log.
#pragma once

#include <mutex>
#include <vector>

#include "services/metering/app/ports.hpp"

namespace nodus::metering {

// Stages rows (row_batch.hpp) and writes them with the log's commits: it takes the log's on_append.
class PostgresProjections final : public Projections {
 public:
  explicit PostgresProjections(eventlog::EventLog& log);
  void charge_changed(eventlog::Unit& unit, const SandboxUid& uid, const charge::State& before,
                      const charge::State& after, std::span<const charge::Event> events) override;
  void account_changed(eventlog::Unit& unit, const account::State& after,
                       std::span<const account::Event> events, std::optional<Instant> due) override;
  void deadline_moved(eventlog::Unit& unit, const OrgId& org, std::optional<Instant> due) override;
  void budget_changed(eventlog::Unit& unit, const budget::State& before, const budget::State& after,
                      std::span<const budget::Event> events, std::optional<Instant> due,
                      Instant now) override;
  void storage_judged(eventlog::Unit& unit, const SandboxUid& uid, const charge::State& after) override;
  void budget_deadline_moved(eventlog::Unit& unit, const ProjectKey& project,
                             std::optional<Instant> due) override;
  void cap_judged(eventlog::Unit& unit, const SandboxUid& uid, Instant now) override;
};

// Thread-safe. The price book is read again every half minute: versions are published further ahead than
// that.
class PostgresLookups final : public Lookups {
 public:
  Result<std::optional<PriceVersion>> price_in_force(eventlog::Unit& unit, Instant at) override;
  Result<std::optional<PostedCredit>> posted_credit(eventlog::Unit& unit, const OrgId& org,
                                                    const std::string& id) override;
  Result<Money> refunded(eventlog::Unit& unit, const OrgId& org, const std::string& prefix) override;

 private:
  std::mutex mutex_;
  std::vector<PriceVersion> book_;
  Instant read_at_;
};

}  // namespace nodus::metering
